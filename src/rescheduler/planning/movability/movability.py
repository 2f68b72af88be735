"""May this pod be moved at all? Nothing in the way, or the blocker.

Whether a node would accept the pod is asked elsewhere (`feasibility`); here is what the pod, its
owner, its budgets, its past moves and the policy say. Permanent blockers (it is a DaemonSet's) are
checked before temporary ones (its budget allows nothing right now), so the first one found says
most.

What replicas share is checked once for their template, and what they do not share is in columns,
so that asking for all pods at once is hardly more work than asking for one.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rescheduler.model.moves import Mode
from rescheduler.model.objects import PodDisruptionBudget
from rescheduler.model.selectors import selects
from rescheduler.model.snapshot import RUNNING, Bools, Floats, Snapshot
from rescheduler.planning.context import DEFAULT_CONTEXT, MoveInFlight, PlanningContext
from rescheduler.planning.movability.blocker import Blocker
from rescheduler.planning.movability.move_history import Cooldown, MoveHistory, time_in_words
from rescheduler.planning.movability.move_modes import MoveModes
from rescheduler.planning.movability.permanent_blockers import PermanentBlockers
from rescheduler.planning.movability.workload_owners import WorkloadOwners
from rescheduler.settings import Policy

__all__ = ["Blocker", "Movability"]


class _TemporaryBlocker(NamedTuple):
    """Something that keeps some pods where they are for the moment, and the blocker for one."""

    holds: Bools
    blocker: Callable[[int], Blocker]


class Movability:
    """What stands in the way of moving each pod of a snapshot, and how it would be moved."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, context: PlanningContext = DEFAULT_CONTEXT
    ) -> None:
        self.workloads = WorkloadOwners(snapshot)
        self._snapshot = snapshot
        self._policy = policy
        self._context = context
        self._modes = MoveModes(snapshot, self.workloads)
        self._budgets_of: dict[int, list[PodDisruptionBudget]] = {}

    @cached_property
    def movable(self) -> Bools:
        """For each pod whether `blocker` finds nothing."""
        free = np.array([blocker is None for blocker in self._permanent], bool)
        movable: Bools = free[self._snapshot.pods.template]
        for temporary in self._temporary:
            movable &= ~temporary.holds
        movable.flags.writeable = False
        return movable

    def blocker(self, pod: int) -> Blocker | None:
        """The first thing that keeps the pod where it is, or None if it may be moved."""
        permanent = self._permanent[int(self._snapshot.pods.template[pod])]
        if permanent is not None:
            return permanent
        return next(
            (temporary.blocker(pod) for temporary in self._temporary if temporary.holds[pod]), None
        )

    def mode(self, template: int) -> Mode:
        """The gentlest mode in which pods of this template can be moved."""
        return self._modes.gentlest(template)

    def budgets(self, template: int) -> list[PodDisruptionBudget]:
        """The disruption budgets that cover pods of this template."""
        if template not in self._budgets_of:
            pods = self._snapshot.templates[template]
            self._budgets_of[template] = [
                budget
                for budget in self._budgets_in.get(pods.namespace, ())
                if selects(budget.spec.selector, pods.labels)
            ]
        return self._budgets_of[template]

    def replicas(self, template: int) -> int:
        """How many pods the owner of this template wants or, if that is not known, has."""
        return self.workloads.replicas[template]

    @cached_property
    def in_flight(self) -> dict[int, MoveInFlight]:
        """The pods that are being migrated and are still there, by their row."""
        pods = self._snapshot.pods
        rows = ((pods.find(move.pod), move) for move in self._context.in_flight)
        return {row: move for row, move in rows if row is not None}

    @cached_property
    def _permanent(self) -> list[Blocker | None]:
        """What keeps the pods of each template where they are for good."""
        blockers = PermanentBlockers(self._snapshot, self._policy, self.workloads, self._modes)
        return [blockers.blocker(template) for template in range(len(self._snapshot.templates))]

    # ------------------------------------------------------------ temporary blockers

    @cached_property
    def _temporary(self) -> list[_TemporaryBlocker]:
        pods = self._snapshot.pods
        wrong = "it is not Ready, so something is wrong already"
        return [
            _TemporaryBlocker(self._rows(self.in_flight), self._being_migrated),
            _always(pods.deleting, "BeingDeleted", "it is being deleted"),
            _always(pods.node < 0, "NotScheduled", "it is on no node yet"),
            _always(pods.phase != RUNNING, "NotRunning", "it is not running yet"),
            _always(~pods.ready, "NotReady", wrong),
            _TemporaryBlocker(self._ages < self._policy.min_pod_age_seconds, self._too_young),
            _TemporaryBlocker(self._rows(self._cooldowns), self._recently_moved),
            _TemporaryBlocker(self._is_held_back[pods.template], self._why_held_back),
        ]

    def _rows(self, rows: dict[int, MoveInFlight] | dict[int, Cooldown]) -> Bools:
        marked = np.zeros(len(self._snapshot.pods), bool)
        marked[list(rows)] = True
        return marked

    def _being_migrated(self, pod: int) -> Blocker:
        target = self.in_flight[pod].target
        return Blocker("BeingMigrated", f"it is on its way to {target} already")

    def _too_young(self, pod: int) -> Blocker:
        age = time_in_words(float(self._ages[pod]))
        least = time_in_words(self._policy.min_pod_age_seconds)
        return Blocker("TooYoung", f"it is {age} old, younger than minPodAge ({least})")

    def _recently_moved(self, pod: int) -> Blocker:
        detail = self._cooldowns[pod].in_words(self._context.now)
        return Blocker("RecentlyMoved", detail)

    @cached_property
    def _ages(self) -> Floats:
        """In seconds; not a number, and so younger than nothing, where it is not known."""
        # The server's clock may be a little ahead of ours.
        return np.maximum(self._context.now - self._snapshot.pods.created, 0.0)

    @cached_property
    def _cooldowns(self) -> dict[int, Cooldown]:
        """Pods that are left alone after a past move, by their row."""
        history = MoveHistory(self._context.history, self._context.now)
        subjects = history.subjects
        if not subjects:
            return {}
        names, pods = self.workloads.names, self._snapshot.pods
        concerned = np.array([name in subjects for name in names], bool)
        rows = set(np.flatnonzero(concerned[pods.template]).tolist())
        rows.update(row for subject in subjects if (row := pods.find(subject)) is not None)
        nodes = self._snapshot.nodes.names
        cooldowns = {}
        for row in rows:
            subject = names[int(pods.template[row])] or pods.keys[row]
            node = int(pods.node[row])
            cooldown = history.cooldown(subject, nodes[node] if node >= 0 else "")
            if cooldown is not None:
                cooldowns[row] = cooldown
        return cooldowns

    # ------------------------------------------------------------ whether budgets let it go

    @cached_property
    def _is_held_back(self) -> Bools:
        return np.array(
            [
                # A template that stays anyway need not be asked about.
                permanent is None and self._holding_back(template) is not None
                for template, permanent in enumerate(self._permanent)
            ],
            bool,
        )

    def _why_held_back(self, pod: int) -> Blocker:
        blocker = self._holding_back(int(self._snapshot.pods.template[pod]))
        assert blocker is not None, "asked only for pods that are held back"
        return blocker

    def _holding_back(self, template: int) -> Blocker | None:
        return self._short_of_pods(template) or self._eviction_blocker(template)

    def _short_of_pods(self, template: int) -> Blocker | None:
        """A workload short of pods is left alone, even by a handoff, which would only wait."""
        if self._snapshot.templates[template].namespace not in self._short_namespaces:
            return None
        for budget in self.budgets(template):
            if is_short(budget):
                status, name = budget.status, budget.metadata.name
                healthy = f"{status.current_healthy} of {status.desired_healthy}"
                return Blocker("Budget", f"disruption budget {name} has {healthy} healthy pods")
        return None

    @cached_property
    def _short_namespaces(self) -> set[str]:
        budgets = self._snapshot.budgets.values()
        return {budget.metadata.namespace for budget in budgets if is_short(budget)}

    def _eviction_blocker(self, template: int) -> Blocker | None:
        if self.mode(template) != Mode.EVICT:
            return None
        owner = self._snapshot.templates[template].owner
        # A Job's pod serves nobody meanwhile.
        if self.replicas(template) <= 1 and owner is not None and owner.kind != "Job":
            return Blocker("SingleReplica", f"moving it would leave none of {owner.name}")
        return self._blocked_by_budget(template)

    def _blocked_by_budget(self, template: int) -> Blocker | None:
        budgets = self.budgets(template)
        if len(budgets) > 1:
            names = ", ".join(budget.metadata.name for budget in budgets)
            return Blocker("SeveralBudgets", f"the API evicts no pod of several budgets ({names})")
        if budgets and budgets[0].status.disruptions_allowed < 1:
            name = budgets[0].metadata.name
            return Blocker("Budget", f"disruption budget {name} allows no disruption now")
        return None

    @cached_property
    def _budgets_in(self) -> dict[str, list[PodDisruptionBudget]]:
        by_namespace: dict[str, list[PodDisruptionBudget]] = defaultdict(list)
        for budget in self._snapshot.budgets.values():
            by_namespace[budget.metadata.namespace].append(budget)
        return by_namespace


def is_short(budget: PodDisruptionBudget) -> bool:
    """Whether there are fewer healthy pods than it wants."""
    return budget.status.current_healthy < budget.status.desired_healthy


def _always(holds: Bools, name: str, detail: str) -> _TemporaryBlocker:
    return _TemporaryBlocker(holds, lambda pod: Blocker(name, detail))
