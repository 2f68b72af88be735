"""How a pod can be moved: gently, with the new one Ready before the old one goes, or not."""

from functools import cached_property

from rescheduler.labels import HANDOFF
from rescheduler.model.moves import Mode
from rescheduler.model.rules.surge import (
    ADOPTING_OWNERS,
    IGNORES_NOMINATIONS,
    allows_surge,
    forbids_handoff,
)
from rescheduler.model.rules.volume_sharing import has_single_node_volume
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.context import PlanningContext
from rescheduler.planning.movability.workload_owners import WorkloadOwners


class MoveModes:
    """Finds the way to move the pods of each template."""

    def __init__(
        self, snapshot: Snapshot, workloads: WorkloadOwners, context: PlanningContext
    ) -> None:
        self._snapshot = snapshot
        self._workloads = workloads
        self._context = context
        self._found: dict[int, Mode] = {}

    def gentlest(self, template: int) -> Mode:
        """The gentlest mode in which pods of this template can be moved."""
        mode = self._found.get(template)
        if mode is None:
            mode = self._found[template] = self._gentlest(template)
        return mode

    def _gentlest(self, template: int) -> Mode:
        owner = self._snapshot.templates[template].owner
        if owner is None:
            return Mode.RECREATE
        if owner.kind not in ADOPTING_OWNERS:
            # Its controller would not adopt a pod created beforehand.
            return Mode.EVICT
        return Mode.EVICT if self.why_no_second_copy(template) else Mode.HANDOFF

    def why_no_second_copy(self, template: int) -> str | None:
        """What forbids that two pods of this template run in place of one for a while, or None."""
        pod = self._snapshot.templates[template]
        if forbids_handoff(pod.annotations.handoff):
            return f"its annotation {HANDOFF} is never"
        if has_single_node_volume(pod.volumes, pod.namespace, self._snapshot.claims.get):
            return "pods on two nodes must not use its volume at the same time"
        if self._context.placing_blocker:
            return self._context.placing_blocker
        if self._workloads.names[template] in self._context.ignoring_nominations:
            return IGNORES_NOMINATIONS
        # Looked for only if there are any: each look costs, and most clusters have none.
        if self._without_surge and self._workloads.deployment(template) in self._without_surge:
            return "its Deployment allows no second copy"
        return None

    @cached_property
    def _without_surge(self) -> set[str]:
        """Deployments that never run a pod more than they want."""
        deployments = self._snapshot.deployments.items()
        return {key for key, deployment in deployments if not allows_surge(deployment)}
