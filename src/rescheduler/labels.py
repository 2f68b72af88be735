"""Every label, annotation and taint key that we read or write, once."""

# ------------------------------------------------------------ what people write for us

RESCHEDULING = "scheduler.alpha.kubernetes.io/rescheduling"
"""Label on a pod: `disabled` keeps it where it is."""

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
"""Label on a node: `true` asks for it to be emptied. A policy may name another label."""

POD_GROUPS = ("scheduling.x-k8s.io/pod-group", "scheduler.alpha.kubernetes.io/pod-group")
"""Labels on a pod: the group that it moves with, or stays with."""

HANDOFF = "rescheduler.dev/handoff"
"""Annotation on a pod: `never` forbids that a second copy runs at the same time."""

MOVE_COST = "rescheduler.dev/move-cost"
"""Annotation on a pod: what its move costs, on top of what we estimate."""

NODE_COST = "rescheduler.dev/node-cost"
"""Annotation on a node: its price."""

# ------------------------------------------------------------ what the leader writes on its Lease

LAST_VALID_POLICY = "rescheduler.dev/last-valid-policy"
"""Annotation: the content of the policy file that is in use."""

POLICY_PROBLEM = "rescheduler.dev/policy-problem"
"""Annotation: why the policy file that is there now is not in use."""

# ------------------------------------------------------------ what we write into files

SNAPSHOT_TIME = "rescheduler.dev/snapshot-time"
"""Annotation on the list in a cluster file: when the file was written, RFC 3339."""

# ------------------------------------------------------------ what a migration writes on objects

MIGRATION_ID = "scheduler.alpha.kubernetes.io/migration-id"
"""Label on both pods of a migration, and on its temporary objects: the Migration's uid."""

MIGRATION_STATUS = "scheduler.alpha.kubernetes.io/migration-status"
"""Label: `in-progress` while the migration may still be undone, `completed` once it may not."""

MIGRATED_FROM = "scheduler.alpha.kubernetes.io/migrated-from"
"""Label: the node that the pod leaves or left."""

MIGRATION_REASON = "scheduler.alpha.kubernetes.io/migration-reason"
"""Label: the strategy that planned the move, or `Manual`."""

MIGRATION_LABELS = (MIGRATION_ID, MIGRATION_STATUS, MIGRATED_FROM, MIGRATION_REASON)
"""All labels that a migration writes on a pod."""

MIGRATION_TIME = "scheduler.alpha.kubernetes.io/migration-time"
"""Annotation: when it started, RFC 3339."""

ORIGINAL_POD = "scheduler.alpha.kubernetes.io/original-pod"
"""Annotation on the new pod: the uid of the pod that it replaces."""

ORIGINAL_POD_NAME = "scheduler.alpha.kubernetes.io/original-pod-name"
"""Annotation on the new pod: the name of the pod that it replaces."""

MIGRATION_NAME = "rescheduler.dev/migration"
"""Annotation wherever `MIGRATION_ID` is: the Migration's name, by which it can be looked up."""

STEERED_BY = "rescheduler.dev/steered-by"
"""Annotation on an evicted pod's replacement: the uid of the Migration that steered it, by a
preferred node affinity or by the extender's highest score."""

ACCEPTED_AT = "rescheduler.dev/accepted-at"
"""Annotation on a pending pod that the extender had refused everywhere: when it saw that a node
would accept it after all, RFC 3339. That it is written makes kube-scheduler try the pod again."""

PREVIOUS_DELETION_COST = "rescheduler.dev/previous-deletion-cost"
"""Annotation on the old pod while our deletion cost is in place: the one that its owner had set,
or empty if there was none."""

PREVIOUS_MARKS = "rescheduler.dev/previous-marks"
"""Annotation on a pod that has been moved before: what that migration had written on it, as JSON,
to be restored if this one is undone."""

PLACING_GATE = "rescheduler.dev/placing"
"""Scheduling gate of a new pod, until its target is nominated: it is not a label, but a key that
others see on our pods all the same."""

CREATED_BY_US = "rescheduler.dev/created-by-migration"
"""Condition in the status of a new pod, until its workload has adopted it: a migration has created
it. Whoever may patch pods may write all of the labels and annotations above, but no status."""

CORDONED_BY = "rescheduler.dev/cordoned-for-maintenance"
"""Annotation on a node: we cordoned it because of its maintenance label, and will uncordon it."""

# ------------------------------------------------------------ what Kubernetes reads and writes

CONTROL_PLANE_ROLES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Labels on a node that runs the control plane."""

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOSTNAME = "kubernetes.io/hostname"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""Labels on a node: where it is, its name, and what kind of machine it is."""

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
"""What `ZONE` and `REGION` were called; old volumes still carry them."""

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
"""Taints that controllers put on a node: it is cordoned, not Ready, or its kubelet is silent."""

DISK_PRESSURE_TAINT = "node.kubernetes.io/disk-pressure"
MEMORY_PRESSURE_TAINT = "node.kubernetes.io/memory-pressure"
PID_PRESSURE_TAINT = "node.kubernetes.io/pid-pressure"
"""Taints on a node that runs short of something."""

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label on a namespace: its name."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation on a pod: of several Ready ones its ReplicaSet deletes the one with the lowest."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Annotation on a pod: `false` keeps the cluster autoscaler, and us, from moving it."""

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
"""Annotation on a pod: `true` keeps Karpenter, and us, from moving it."""

MIRROR_POD = "kubernetes.io/config.mirror"
"""Annotation on a static pod: its kubelet runs it from a file."""

POD_TEMPLATE_HASH = "pod-template-hash"
"""Label by which a Deployment's ReplicaSets select their own pods."""

REVISION_HASH = "controller-revision-hash"
"""Label on the pods of StatefulSets and DaemonSets: the version of their template."""

TEMPLATE_HASHES = (POD_TEMPLATE_HASH, "rollouts-pod-template-hash", REVISION_HASH)
"""Labels that name the version of the template a pod was created from."""

POD_TEMPLATE_GENERATION = "pod-template-generation"
"""Label on a DaemonSet's pod: the older form of `REVISION_HASH`."""

DEPLOYMENT_REVISION = "deployment.kubernetes.io/revision"
DEPLOYMENT_DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
DEPLOYMENT_MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
"""Annotations that a Deployment writes on its ReplicaSets."""

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""Annotation on a template: when `kubectl rollout restart` was run."""

STATEFUL_SET_POD_NAME = "statefulset.kubernetes.io/pod-name"
STATEFUL_SET_POD_INDEX = "apps.kubernetes.io/pod-index"
"""Labels on a StatefulSet's pod."""

JOB_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
JOB_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Labels on a Job's pod."""

OLD_JOB_CONTROLLER_UID = "controller-uid"
OLD_JOB_NAME = "job-name"
"""What `JOB_CONTROLLER_UID` and `JOB_NAME` were called; Jobs still write both."""

SERVICE_NAME = "kubernetes.io/service-name"
"""Label on an EndpointSlice: the Service whose endpoints it has."""

DEFAULT_STORAGE_CLASS = "storageclass.kubernetes.io/is-default-class"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
OLD_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotations on storage classes, claims, volumes and CSI nodes."""

# ------------------------------------------------------------ what the simulated cluster reads

STARTS_IN_SECONDS = "rescheduler.dev/simulated-start-seconds"
"""Annotation on a pod: how long it takes from being bound to being Ready; `never` for ever."""

RUNS_FOR_SECONDS = "rescheduler.dev/simulated-run-seconds"
"""Annotation on a pod that runs to completion: how long it runs."""
