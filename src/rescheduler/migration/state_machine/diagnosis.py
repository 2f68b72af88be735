"""Messages for people: what is wrong with a new pod, its target node, or its workload.

All functions return an empty string if nothing is wrong.
"""

from rescheduler.migration.moving_pod import MovingContainerStatus, MovingPod
from rescheduler.migration.state_machine.observation import Observation, WorkloadPods
from rescheduler.migration.workload_objects import ObservedWorkload
from rescheduler.model.rules.rollouts import is_rolling_out, stuck_rollout

CRASHING = "CrashLoopBackOff"
HOPELESS = ("ErrImageNeverPull", "InvalidImageName")
"""Why a container never starts on its node. An image that could not be pulled is tried again."""


def not_ready_reason(pod: MovingPod) -> str:
    """The most specific reason known for a pod that is not Ready; never empty."""
    waiting = next(
        (container for container in containers_of(pod) if waiting_reason(container)), None
    )
    on_node = f" on {pod.node}" if pod.node else ""
    if waiting is not None and waiting_reason(waiting) != "ContainerCreating":
        return waiting_text(waiting, pod)
    if failed := next(filter(failed_exit, containers_of(pod)), None):
        return f"container {failed.name} has ended{on_node} with {failed_exit(failed)}"
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


def permanent_failure(pod: MovingPod) -> str:
    """Why the new pod will not become Ready, however long we wait."""
    name = pod.metadata.name
    if pod.is_deleting or pod.is_finished:
        return f"new pod {name} {termination_reason(pod)}"
    for container in containers_of(pod):
        if waiting_reason(container) in HOPELESS:
            return f"new pod {name} cannot start: {waiting_text(container, pod)}"
        if is_crash_looping(container):
            count = container.restart_count
            times = "once" if count == 1 else f"{count} times"
            exit = f", and ended with {failed_exit(container)}" if failed_exit(container) else ""
            return (
                f"new pod {name} keeps crashing: container {container.name} has been restarted "
                f"{times} on {pod.node}{exit}"
            )
    return ""


def is_crash_looping(container: MovingContainerStatus) -> bool:
    """Whether a container has failed again after a restart.

    The kubelet may take seconds to call it that. Until then the container is just terminated.
    """
    has_failed = container.state.terminated is not None and bool(failed_exit(container))
    return waiting_reason(container) == CRASHING or (has_failed and container.restart_count > 0)


def failed_exit(container: MovingContainerStatus) -> str:
    """How a container that does not run has failed, such as by OOMKilled."""
    if container.state.waiting is None and container.state.terminated is None:
        return ""
    ended = container.state.terminated or container.last_state.terminated
    if ended is None or ended.exit_code == 0:
        return ""
    # `Error` says no more than the exit code.
    reason = f"{ended.reason}, " if ended.reason not in ("", "Error") else ""
    return f"{reason}exit code {ended.exit_code}"


def termination_reason(pod: MovingPod) -> str:
    """Why a pod that should be running has finished or is terminating; never empty."""
    condition, status = pod.condition("DisruptionTarget"), pod.status
    disruption = condition.reason if condition is not None and condition.status == "True" else ""
    if disruption == "PreemptionByScheduler":
        return f"was preempted by a pod of higher priority on {pod.node}"
    if pod.is_finished:
        # A kubelet that does not admit a pod, or evicts it, writes a short reason and a sentence.
        texts = [text for text in (status.reason, status.message) if text]
        end = "failed" if pod.has_failed else "finished"
        return f"{end} on {pod.node}: {': '.join(texts) or status.phase}"
    if disruption:
        return f"was disrupted on {pod.node}: {disruption}"
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
    """The rollout by which its Deployment is replacing the pods, and how far it is."""
    deployment = workload.deployment
    if deployment is None or not is_rolling_out(deployment):
        return ""
    updated, wanted = deployment.status.updated_replicas, deployment.spec.replicas
    text = f"Deployment {deployment.metadata.name} is rolling out another version"
    text += f" ({updated} of {1 if wanted is None else wanted} pods are updated)"
    stuck = stuck_rollout(deployment)
    return f"{text}, but {stuck}" if stuck else text


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
    wanted, is_paused = deployment.spec.replicas, deployment.spec.paused
    if wanted is not None and wanted != workload.replicas and not is_paused:
        return f"Deployment {name} is being scaled"
    return ""


def reported_as_incomplete(o: Observation) -> str:
    """What the workload lacks by its own status, which is at hand without asking for its pods."""
    if o.replicas is None:
        return ""
    is_old_ready = o.old is not None and o.old.is_ready
    desired, ready = o.replicas.desired, o.replicas.ready
    if ready + (not is_old_ready) >= desired:
        return ""
    return f"{workload_name(o)} has {ready} of {desired} pods Ready"


def incomplete_reason(o: Observation, siblings: WorkloadPods) -> str:
    """What the workload of the old pod lacks: a pod, or one that is Ready, besides the old one."""
    name = workload_name(o)
    if o.replicas is not None and siblings.active != o.replicas.desired:
        return f"{name} has {siblings.active} pods of {o.replicas.desired}"
    if o.is_old_running and siblings.active == 0:
        return f"no pod of {name} was found, not even this one"
    if o.replicas is None and siblings.terminating:
        return f"a pod of {name} is being deleted, and it is not known how many pods it wants"
    if o.replicas is None and siblings.active < o.unreplaced_from:
        return f"{name} has {siblings.active} of {o.unreplaced_from} pods: one was not replaced"
    for pod in siblings.not_ready:
        if o.old is None or pod.uid != o.old.uid:
            return f"pod {pod.name} of {name} is not Ready"
    return ""


def workload_name(o: Observation) -> str:
    """The workload of the old pod, as people call it."""
    if o.workload is not None:
        return o.workload.name
    owner = o.old.metadata.controller if o.old is not None else o.migration.status.workload
    return f"{owner.kind} {owner.name}" if owner is not None else "its workload"


def containers_of(pod: MovingPod) -> tuple[MovingContainerStatus, ...]:
    """The status of all containers, init containers first."""
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def waiting_text(container: MovingContainerStatus, pod: MovingPod) -> str:
    """Why a container is waiting, and where, in the words of its kubelet."""
    waiting = container.state.waiting
    message = f": {waiting.message}" if waiting is not None and waiting.message else ""
    return f"{waiting_reason(container)}{f' on {pod.node}' if pod.node else ''}{message}"


def waiting_reason(container: MovingContainerStatus) -> str:
    """Why a container is waiting."""
    return container.state.waiting.reason if container.state.waiting is not None else ""
