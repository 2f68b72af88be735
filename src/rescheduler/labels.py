"""Every label and annotation key that we read or write, once."""

RESCHEDULING = "scheduler.alpha.kubernetes.io/rescheduling"
"""On a pod: `disabled` keeps it where it is."""

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
"""On a node: `true` asks for it to be emptied."""

CONTROL_PLANE_ROLES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""On a node: it runs the cluster itself and gets no pods of users."""

POD_GROUPS = ("scheduling.x-k8s.io/pod-group", "scheduler.alpha.kubernetes.io/pod-group")
"""On a pod: the group that it moves with, or stays with."""
