"""Which of the moves that are over somebody wants to see."""

from dataclasses import dataclass
from datetime import datetime

from rescheduler.migration.memory.move_record import MoveRecord
from rescheduler.model.moves import Outcome


@dataclass(frozen=True)
class MoveFilter:
    """Conditions that a move must meet; None is no condition."""

    namespace: str | None = None
    earliest: datetime | None = None
    """When it must have ended, or later."""
    strategy: str | None = None
    workload: str | None = None
    """Name of its workload, `KIND/NAME`, or `KIND/NAMESPACE/NAME` as moves are counted by it. That
    of a Deployment stands for its ReplicaSets."""
    outcome: Outcome | None = None

    def accepts(self, record: MoveRecord) -> bool:
        """Whether a move meets all conditions."""
        spec = record.spec
        return (
            self.namespace in (None, spec.namespace)
            and (self.earliest is None or spec.finished_at >= self.earliest)
            and self.strategy in (None, spec.strategy)
            and self.outcome in (None, spec.outcome)
            and self._accepts_workload(record)
        )

    def _accepts_workload(self, record: MoveRecord) -> bool:
        if self.workload is None:
            return True
        workload = record.spec.workload
        if workload is None:
            return False
        names = [(workload.kind, workload.name)]
        if record.deployment:
            names.append(("Deployment", record.deployment))
        namespace = record.spec.namespace
        return any(
            self.workload in (name, f"{kind}/{name}", f"{kind}/{namespace}/{name}")
            for kind, name in names
        )
