"""Messages for people: what is wrong with a new pod, its target node, or its workload.

All functions return an empty string if nothing is wrong.
"""

from rescheduler.migration.moving_pod import MovingContainerStatus, MovingPod
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.migration.workload_objects import ObservedWorkload

CRASHING = "CrashLoopBackOff"


def not_ready_reason(pod: MovingPod) -> str:
    """The most specific reason known for a pod that is not Ready; never empty."""
    waiting = next(
        (container for container in containers_of(pod) if waiting_reason(container)), None
    )
    on_node = f" on {pod.node}" if pod.node else ""
    if waiting is not None and waiting_reason(waiting) != "ContainerCreating":
        return f"{waiting_reason(waiting)}{on_node}"
    if not pod.node:
        scheduled = pod.condition("PodScheduled")
        return scheduled.message if scheduled and scheduled.message else "not scheduled"
    if waiting is not None:
        return f"its containers are being created{on_node}"
    ready = pod.condition("Ready")
    if ready is not None and (ready.message or ready.reason):
        return f"{ready.message or ready.reason}{on_node}"
    return f"its readiness is not reported{on_node}"


def unschedulable_reason(pod: MovingPod) -> str:
    """The scheduler's reason why the pod fits on no node."""
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "False" or condition.reason != "Unschedulable":
        return ""
    return condition.message or "the scheduler gives no reason"


def permanent_failure(pod: MovingPod, target: str) -> str:
    """Why the new pod will not become Ready on its target, however long we wait."""
    name = pod.metadata.name
    if pod.is_deleting or pod.is_finished:
        return f"new pod {name} {termination_reason(pod)}"
    if pod.node and pod.node != target:
        return f"new pod {name} was placed on {pod.node} instead of {target}"
    for container in containers_of(pod):
        if waiting_reason(container) == CRASHING:
            return (
                f"new pod {name} keeps crashing: container {container.name} has been restarted "
                f"{container.restart_count} times on {pod.node}"
            )
    return ""


def termination_reason(pod: MovingPod) -> str:
    """Why a pod that should be running has finished or is terminating; never empty."""
    disrupted = pod.condition("DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        if disrupted.reason == "PreemptionByScheduler":
            return f"was preempted by a pod of higher priority on {pod.node}"
        return f"was disrupted on {pod.node}: {disrupted.reason}"
    if pod.is_finished:
        status = pod.status
        return f"finished on {pod.node}: {status.message or status.reason or status.phase}"
    return "was deleted by somebody else"


def target_problem(o: Observation) -> str:
    """Why the target node takes no pods now."""
    name = o.migration.spec.target_node
    if o.target is None:
        return f"target node {name} does not exist"
    if o.target.spec.unschedulable:
        return f"target node {name} is cordoned"
    conditions = o.target.status.conditions
    ready = next((condition for condition in conditions if condition.type == "Ready"), None)
    if ready is None or ready.status != "True":
        return f"target node {name} is not Ready"
    return ""


def rollout_in_progress(workload: ObservedWorkload) -> str:
    """The rollout by which its Deployment is replacing the pods."""
    deployment = workload.deployment
    if deployment is None or deployment.status.updated_replicas == deployment.status.replicas:
        return ""
    return f"Deployment {deployment.metadata.name} is rolling out another version"


def workload_change(workload: ObservedWorkload) -> str:
    """The change that its Deployment is about to make, or is making, to the pods."""
    deployment = workload.deployment
    if deployment is None:
        return ""
    name = deployment.metadata.name
    if deployment.status.observed_generation < deployment.metadata.generation:
        return f"Deployment {name} has just been changed"
    if text := rollout_in_progress(workload):
        return text
    if deployment.spec.replicas is not None and deployment.spec.replicas != workload.replicas:
        return f"Deployment {name} is being scaled"
    return ""


def containers_of(pod: MovingPod) -> tuple[MovingContainerStatus, ...]:
    """The status of all containers, init containers first."""
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def waiting_reason(container: MovingContainerStatus) -> str:
    """Why a container is waiting."""
    return container.state.waiting.reason if container.state.waiting is not None else ""
