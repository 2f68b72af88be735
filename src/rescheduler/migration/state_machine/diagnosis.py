"""What is wrong, in words for people: with a new pod, its target, or the workload it belongs to."""

from rescheduler.migration.moving_pod import ContainerProgress, MovingPod
from rescheduler.migration.state_machine.observation import Observation, ObservedWorkload

CRASHING = "CrashLoopBackOff"


def why_not_ready(pod: MovingPod) -> str:
    """The most telling thing that is known about a pod that should be Ready."""
    waiting = next((each for each in containers_of(pod) if waiting_reason(each)), None)
    place = f" on {pod.node}" if pod.node else ""
    if waiting is not None and waiting_reason(waiting) != "ContainerCreating":
        return f"{waiting_reason(waiting)}{place}"
    if not pod.node:
        scheduled = pod.condition("PodScheduled")
        return scheduled.message if scheduled and scheduled.message else "not scheduled"
    if waiting is not None:
        return f"its containers are being created{place}"
    ready = pod.condition("Ready")
    if ready is not None and (ready.message or ready.reason):
        return f"{ready.message or ready.reason}{place}"
    return f"its readiness is not reported{place}"


def unschedulable(pod: MovingPod) -> str:
    """Why the scheduler finds no room for it, or nothing."""
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "False" or condition.reason != "Unschedulable":
        return ""
    return condition.message or "the scheduler does not say why"


def lasting_trouble(pod: MovingPod, target: str) -> str:
    """Why waiting for a pod to become Ready is no use, or nothing."""
    name = pod.metadata.name
    if pod.is_deleting or pod.is_over:
        return f"new pod {name} {ending(pod)}"
    if pod.node and pod.node != target:
        return f"new pod {name} was placed on {pod.node} instead of {target}"
    for container in containers_of(pod):
        if waiting_reason(container) == CRASHING:
            return (
                f"new pod {name} keeps crashing: container {container.name} has been restarted "
                f"{container.restart_count} times on {pod.node}"
            )
    return ""


def ending(pod: MovingPod) -> str:
    """How a pod that should live has ended, or is about to."""
    disrupted = pod.condition("DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        if disrupted.reason == "PreemptionByScheduler":
            return f"was preempted by a more important pod on {pod.node}"
        return f"was disrupted on {pod.node}: {disrupted.reason}"
    if pod.is_over:
        return f"ended on {pod.node}: {pod.status.message or pod.status.reason or pod.status.phase}"
    return "was deleted by someone"


def target_trouble(o: Observation) -> str:
    """Why the target takes no pods now, or nothing."""
    name = o.migration.spec.target_node
    if o.target is None:
        return f"target node {name} does not exist"
    if o.target.spec.unschedulable:
        return f"target node {name} is cordoned"
    ready = next((each for each in o.target.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status != "True":
        return f"target node {name} is not Ready"
    return ""


def rollout(workload: ObservedWorkload) -> str:
    """That its Deployment is replacing its pods, or nothing."""
    deployment = workload.deployment
    if deployment is None or deployment.status.updated_replicas == deployment.status.replicas:
        return ""
    return f"Deployment {deployment.metadata.name} is rolling out another version"


def workload_change(workload: ObservedWorkload) -> str:
    """What its Deployment is doing, or about to do, to its pods; nothing if it is at rest."""
    deployment = workload.deployment
    if deployment is None:
        return ""
    name = deployment.metadata.name
    if deployment.status.observed_generation < deployment.metadata.generation:
        return f"Deployment {name} has just been changed"
    if text := rollout(workload):
        return text
    if deployment.spec.replicas is not None and deployment.spec.replicas != workload.replicas:
        return f"Deployment {name} is being scaled"
    return ""


def containers_of(pod: MovingPod) -> tuple[ContainerProgress, ...]:
    """All containers, those that run first first."""
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def waiting_reason(container: ContainerProgress) -> str:
    """Why a container does not run, or nothing."""
    return container.state.waiting.reason if container.state.waiting is not None else ""
