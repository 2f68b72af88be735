"""Having kube-scheduler try pods again that were refused everywhere and would not be by now."""
