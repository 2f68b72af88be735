"""kube-scheduler's score plugins, one file each, under the names that it gives them."""
