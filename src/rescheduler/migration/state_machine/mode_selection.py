"""Which way a pod is moved: the one asked for, or the gentlest that fits."""

from rescheduler.labels import HANDOFF, RESCHEDULING
from rescheduler.migration.migration_object import WorkloadReference
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.new_pod import template_hash
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.migration.state_machine.status_transitions import FITS_BESIDE
from rescheduler.model.moves import Mode
from rescheduler.model.rules.surge import ADOPTING_OWNERS, allows_surge, forbids_handoff
from rescheduler.model.selectors import matches

BOUND_TO_NODES = {"DaemonSet": "a DaemonSet wants it on its node", "Node": "its node runs it"}
MIRROR = "kubernetes.io/config.mirror"


class CannotMove(Exception):
    """The pod cannot be moved this way, or not at all. The text says why."""


def select_mode(o: Observation) -> Mode:
    """The way to move the pod; raises `CannotMove` if there is none."""
    assert o.old is not None
    owner = o.old.metadata.controller
    name = f"pod {o.old.metadata.name}"
    if o.old.metadata.labels.get(RESCHEDULING) == "disabled":
        raise CannotMove(f"{name} is to stay: its label {RESCHEDULING} says so")
    if MIRROR in o.old.metadata.annotations:
        raise CannotMove(f"{name} is static: its node runs it from a file")
    if owner is not None and owner.kind in BOUND_TO_NODES:
        raise CannotMove(f"{name} cannot be moved: {BOUND_TO_NODES[owner.kind]}")
    asked = o.migration.spec.mode
    if owner is None:
        return select_bare_pod_mode(o, asked, name)
    if asked == Mode.RECREATE:
        raise CannotMove(f"{name} belongs to {owner.kind} {owner.name}, which would fight a copy")
    why_not = why_not_handoff(o)
    if asked == Mode.HANDOFF and why_not:
        raise CannotMove(f"{name} cannot be handed over: {why_not}")
    if asked == Mode.AUTO:
        return Mode.EVICT if why_not or must_be_evicted(o) else Mode.HANDOFF
    return asked


def select_bare_pod_mode(o: Observation, asked: Mode, name: str) -> Mode:
    """A pod without a controller can only be copied, and only if the policy says so."""
    assert o.old is not None
    if asked not in (Mode.AUTO, Mode.RECREATE):
        raise CannotMove(f"{name} has no controller: after {asked} nobody would bring it back")
    if not o.options.bare_pods:
        raise CannotMove(f"{name} has no controller, and the policy's migration.barePods is false")
    if o.old.spec.restart_policy not in ("", "Always"):
        raise CannotMove(f"{name} runs to an end: a copy would do its work twice")
    if o.has_single_node_volume:
        raise CannotMove(f"{name} has a volume that only one node may attach")
    return Mode.RECREATE


def why_not_handoff(o: Observation) -> str:
    """Why two copies must not run side by side, or nothing."""
    assert o.old is not None
    owner = o.old.metadata.controller
    if owner is None or owner.kind not in ADOPTING_OWNERS:
        return "its controller cannot adopt a pod made beforehand"
    if forbids_handoff(o.old.metadata.annotations.get(HANDOFF, "")):
        return f"its annotation {HANDOFF} says never"
    if o.has_single_node_volume:
        return "only one node may attach its volume"
    if o.workload is None:
        return f"{owner.kind} {owner.name} is gone"
    if not matches(o.workload.selector, o.workload.template.metadata.labels):
        return f"{owner.kind} {owner.name} does not select pods of its own template"
    deployment = o.workload.deployment
    if deployment is not None and not allows_surge(deployment):
        return f"Deployment {deployment.metadata.name} allows no second copy"
    return ""


def must_be_evicted(o: Observation) -> bool:
    """Whether a handoff was tried and there is no room beside the old pod."""
    return o.options.deployment_coordination and any(
        each.type == FITS_BESIDE and each.status == "False"
        for each in o.migration.status.conditions
    )


def reference_to(pod: MovingPod, o: Observation) -> WorkloadReference | None:
    """Whose pod it is, to be remembered in the status: an evicted pod can no longer be asked."""
    owner = pod.metadata.controller
    if owner is None:
        return None
    return WorkloadReference(
        kind=owner.kind,
        name=owner.name,
        uid=owner.uid,
        replicas=o.workload.replicas if o.workload is not None else None,
        template_hash=template_hash(pod.metadata.labels),
    )
