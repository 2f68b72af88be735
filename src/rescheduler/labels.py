"""Every label and annotation key that we read or write, once."""

RESCHEDULING = "scheduler.alpha.kubernetes.io/rescheduling"
"""On a pod: `disabled` keeps it where it is."""

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
"""On a node: `true` asks for it to be emptied."""

CONTROL_PLANE_ROLES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""On a node: it runs the cluster itself and gets no pods of users."""

POD_GROUPS = ("scheduling.x-k8s.io/pod-group", "scheduler.alpha.kubernetes.io/pod-group")
"""On a pod: the group that it moves with, or stays with."""

HANDOFF = "rescheduler.dev/handoff"
"""Annotation on a pod: `never` keeps a second copy from running beside it."""

# ------------------------------------------------------------ what a migration writes on objects

MIGRATION_ID = "scheduler.alpha.kubernetes.io/migration-id"
"""Label on both pods of a migration, and on all it makes for a while: the Migration's uid."""

MIGRATION_STATUS = "scheduler.alpha.kubernetes.io/migration-status"
"""Label: `in-progress` while the migration may still be undone, `completed` once it may not."""

MIGRATED_FROM = "scheduler.alpha.kubernetes.io/migrated-from"
"""Label: the node that the pod leaves or left."""

MIGRATION_REASON = "scheduler.alpha.kubernetes.io/migration-reason"
"""Label: the strategy that asked for it, or `Manual`."""

MIGRATION_TIME = "scheduler.alpha.kubernetes.io/migration-time"
"""Annotation: when it began, RFC 3339."""

ORIGINAL_POD = "scheduler.alpha.kubernetes.io/original-pod"
"""Annotation on the new pod: the uid of the one it takes the place of."""

ORIGINAL_POD_NAME = "scheduler.alpha.kubernetes.io/original-pod-name"
"""Annotation on the new pod: that pod's name."""

MIGRATION_NAME = "rescheduler.dev/migration"
"""Annotation beside `MIGRATION_ID`: the Migration's name, by which it can be looked up."""

STEERED_BY = "rescheduler.dev/steered-by"
"""Annotation on an evicted pod's replacement: the uid of the Migration for whose target it was
given a wish or the scheduler's top score."""

PREVIOUS_DELETION_COST = "rescheduler.dev/previous-deletion-cost"
"""Annotation on the old pod while ours is in place: the deletion cost that its owner had given
it, or nothing if there was none."""

PREVIOUS_MARKS = "rescheduler.dev/previous-marks"
"""Annotation on a pod that has been moved before: what that migration had written on it, as JSON,
to be put back if this one is undone."""

CORDONED_BY = "rescheduler.dev/cordoned-for-maintenance"
"""Annotation on a node: we cordoned it because of its maintenance label, and will uncordon it."""

# ------------------------------------------------------------ what Kubernetes reads

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation on a pod: of several Ready ones its ReplicaSet deletes the one with the least."""

POD_TEMPLATE_HASH = "pod-template-hash"
"""Label by which a Deployment's ReplicaSets tell their pods apart."""

TEMPLATE_HASHES = (POD_TEMPLATE_HASH, "rollouts-pod-template-hash", "controller-revision-hash")
"""Labels that name the version of the template a pod was made from."""

# ------------------------------------------------------------ what the cluster in memory reads

STARTS_IN_SECONDS = "rescheduler.dev/simulated-start-seconds"
"""Annotation on a pod: how long it takes from being bound to being Ready; `never` for ever."""

RUNS_FOR_SECONDS = "rescheduler.dev/simulated-run-seconds"
"""Annotation on a pod that runs to an end: how long it runs."""
