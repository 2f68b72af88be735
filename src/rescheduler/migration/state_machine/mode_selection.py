"""Selects the mode of a migration: the requested one, or the least disruptive that is possible."""

from rescheduler.labels import HANDOFF, MIRROR_POD, RESCHEDULING
from rescheduler.migration.migration_object import FITS_BESIDE_OLD_POD, WorkloadReference
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.new_pod import (
    has_template_hash_label,
    template_hash,
    withholdable,
)
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.migration.workload_objects import ObservedWorkload
from rescheduler.model.moves import Mode
from rescheduler.model.rules.immovable_pods import (
    disables_rescheduling,
    is_daemon_pod,
    is_static_pod,
    runs_to_completion,
)
from rescheduler.model.rules.surge import ADOPTING_OWNERS, allows_surge, forbids_handoff
from rescheduler.model.selectors import matches

SHARED_VOLUME = "pods on two nodes must not use its volume at the same time"


class CannotMove(Exception):
    """The pod cannot be moved in the requested mode, or not at all. The text says why."""


def select_mode(o: Observation) -> Mode:
    """The mode in which to move the pod; raises `CannotMove` if there is none."""
    assert o.old is not None
    owner = o.old.metadata.controller
    name = f"pod {o.old.metadata.name}"
    owner_kind = owner.kind if owner is not None else ""
    if disables_rescheduling(o.old.metadata.labels):
        raise CannotMove(f"{name} must not be moved: its label {RESCHEDULING} is disabled")
    if is_static_pod(owner_kind, o.old.metadata.annotations.get(MIRROR_POD)):
        raise CannotMove(f"{name} is a static pod: its node runs it from a file")
    if is_daemon_pod(owner_kind):
        raise CannotMove(f"{name} cannot be moved: its DaemonSet runs one on every node")
    requested = o.migration.spec.mode
    if owner is None:
        return select_bare_pod_mode(o, requested, name)
    if requested == Mode.RECREATE:
        raise CannotMove(
            f"{name} belongs to {owner.kind} {owner.name}, which would not keep a copy"
        )
    obstacle = handoff_obstacle(o)
    if requested == Mode.HANDOFF and obstacle:
        raise CannotMove(f"{name} cannot be handed over: {obstacle}")
    if requested == Mode.AUTO:
        return Mode.EVICT if obstacle or has_not_fitted(o) else Mode.HANDOFF
    return requested


def select_bare_pod_mode(o: Observation, requested: Mode, name: str) -> Mode:
    """The mode for a pod without a controller: it can only be copied, if the policy allows that."""
    assert o.old is not None
    if requested not in (Mode.AUTO, Mode.RECREATE):
        raise CannotMove(f"{name} has no controller: after {requested} nobody would replace it")
    if not o.allow_bare_pods:
        raise CannotMove(f"{name} has no controller, and allowBarePods of the policy is false")
    if runs_to_completion(o.old.spec.restart_policy):
        raise CannotMove(f"{name} runs to completion: a copy would do its work twice")
    if forbids_handoff(o.old.metadata.annotations.get(HANDOFF, "")):
        raise CannotMove(f"{name} cannot be copied: its annotation {HANDOFF} is never")
    if o.has_single_node_volume:
        raise CannotMove(f"{name} cannot be copied: {SHARED_VOLUME}")
    if o.placing_blocker:
        raise CannotMove(f"{name} cannot be copied: {o.placing_blocker}")
    return Mode.RECREATE


def handoff_obstacle(o: Observation) -> str:
    """Why the old and a new pod must not run at the same time, or an empty string."""
    assert o.old is not None
    owner = o.old.metadata.controller
    if owner is None or owner.kind not in ADOPTING_OWNERS:
        return "its controller does not adopt pods that others create"
    if forbids_handoff(o.old.metadata.annotations.get(HANDOFF, "")):
        return f"its annotation {HANDOFF} is never"
    if o.has_single_node_volume:
        return SHARED_VOLUME
    if o.placing_blocker:
        return o.placing_blocker
    if o.workload is None:
        return f"{owner.kind} {owner.name} does not exist"
    if not matches(o.workload.selector, o.workload.template.metadata.labels):
        return f"{owner.kind} {owner.name} does not select pods of its own template"
    deployment = o.workload.deployment
    if deployment is not None and not allows_surge(deployment):
        return f"Deployment {deployment.metadata.name} allows no second copy"
    return label_obstacle(o, o.workload)


def must_know_policies(o: Observation) -> bool:
    """Whether a handoff depends on by which labels policies select: not in a Deployment."""
    workload = o.workload
    return workload is not None and not has_template_hash_label(workload)


def label_obstacle(o: Observation, workload: ObservedWorkload) -> str:
    """Why no label of the new pod can be withheld without a policy overlooking it, if so."""
    policies, labels = o.answers.policies, withholdable(workload)
    if policies is None or not labels or not all(map(policies.may_select_by, labels)):
        return ""
    why = policies.unknown_because or f"NetworkPolicies select by {', '.join(labels)}"
    return f"without a label of {workload.name}, a second pod could escape a policy: {why}"


def has_not_fitted(o: Observation) -> bool:
    """Whether a handoff has failed because the new pod did not fit beside the old one."""
    return o.options.deployment_coordination and any(
        condition.type == FITS_BESIDE_OLD_POD and condition.status == "False"
        for condition in o.migration.status.conditions
    )


def number_of_pods(o: Observation) -> int | None:
    """How many pods the workload wants or, if nobody knows that, how many it has."""
    if o.replicas is not None:
        return o.replicas.desired
    return o.answers.siblings.active if o.answers.siblings is not None else None


def workload_reference(pod: MovingPod, o: Observation) -> WorkloadReference | None:
    """The controller of a pod, for the status: an evicted pod can no longer be read."""
    owner = pod.metadata.controller
    if owner is None:
        return None
    return WorkloadReference(
        kind=owner.kind,
        name=owner.name,
        uid=owner.uid,
        api_version=owner.api_version,
        replicas=number_of_pods(o),
        template_hash=template_hash(pod.metadata.labels),
    )
