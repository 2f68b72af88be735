"""kube-scheduler's filter plugins, one file each, under the names that it gives them."""
