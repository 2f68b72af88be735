# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""What pods belong to, and what protects them."""

from rescheduler.model.objects.parts import (
    Condition,
    Identity,
    Int32,
    Int64,
    Labels,
    LabelSelector,
    ObjectMeta,
    Part,
)


class Namespace(Part):
    """A namespace; its labels are what selectors ask about."""

    metadata: ObjectMeta


class BudgetSpec(Part):
    """How many pods must stay up, or how many may be down: a number or a percentage."""

    selector: LabelSelector | None = None
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    unhealthy_pod_eviction_policy: str = ""


class BudgetStatus(Part):
    """How much disruption the budget allows at the moment."""

    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    observed_generation: Int64 = 0
    disrupted_pods: dict[str, str] = {}
    """Pods that were let go and have not been seen to go yet, and since when."""


class PodDisruptionBudget(Part):
    """A promise about how many pods of an application stay up."""

    metadata: ObjectMeta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class RollingUpdate(Part):
    """How a rollout may go over and under the desired count."""

    max_surge: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None


class DeploymentStrategy(Part):
    """How a workload replaces its pods."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadSpec(Part):
    """What the workloads' specifications have in common, and the little in which they differ."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: Int32 = 0
    paused: bool = False


class WorkloadStatus(Part):
    """How far a workload is."""

    observed_generation: Int64 = 0
    replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    updated_replicas: Int32 = 0


class DeploymentStatus(WorkloadStatus):
    """How far a Deployment is, and whether it gets any further."""

    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Part):
    """Keeps a number of equal pods running."""

    metadata: Identity
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class Deployment(Part):
    """Keeps one ReplicaSet per version of an application."""

    metadata: Identity
    spec: WorkloadSpec = WorkloadSpec()
    status: DeploymentStatus = DeploymentStatus()


class StatefulSet(Part):
    """Keeps pods with an identity."""

    metadata: Identity
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class ReplicationControllerSpec(Part):
    """Like a ReplicaSet's, but its selector is plain labels."""

    replicas: Int32 | None = None
    selector: Labels = {}
    min_ready_seconds: Int32 = 0


class ReplicationController(Part):
    """The ReplicaSet's forerunner."""

    metadata: Identity
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: WorkloadStatus = WorkloadStatus()


class DaemonSet(Part):
    """Keeps a pod on each node."""

    metadata: Identity


class Job(Part):
    """Runs pods to their end."""

    metadata: Identity


class ServiceSpec(Part):
    """The pods that a Service sends traffic to; without a selector, none that it knows."""

    selector: Labels = {}
    type: str = ""
    publish_not_ready_addresses: bool = False


class Service(Part):
    """Sends traffic to pods with certain labels."""

    metadata: Identity
    spec: ServiceSpec = ServiceSpec()


class PriorityClass(Part):
    """A name for a priority."""

    metadata: ObjectMeta
    value: Int32 = 0
    global_default: bool = False
