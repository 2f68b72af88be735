"""May this pod be moved at all? Nothing in the way, or the blocker.

What a node would say to the pod is the judge's business; here is what the pod, its owner, its
budgets, its past and the policy say. Blockers are checked from the lasting (it is a DaemonSet's) to
the passing (its budget allows nothing right now), so the first one found is the most telling.

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


class _Hindrance(NamedTuple):
    """Something that keeps some pods where they are for the moment, and how to say so of one."""

    holds: Bools
    blocker: Callable[[int], Blocker]


class Movability:
    """What stands in the way of moving each pod of a snapshot, and how it would be moved."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, circumstances: PlanningContext = DEFAULT_CONTEXT
    ) -> None:
        self.workloads = WorkloadOwners(snapshot)
        self._snapshot = snapshot
        self._policy = policy
        self._circumstances = circumstances
        self._modes = MoveModes(snapshot, self.workloads)
        self._budgets_of: dict[int, list[PodDisruptionBudget]] = {}

    @cached_property
    def movable(self) -> Bools:
        """For each pod whether `blocker` finds nothing."""
        free = np.array([blocker is None for blocker in self._lasting], bool)
        movable: Bools = free[self._snapshot.pods.template]
        for hindrance in self._hindrances:
            movable &= ~hindrance.holds
        movable.flags.writeable = False
        return movable

    def blocker(self, pod: int) -> Blocker | None:
        """The first thing that keeps the pod where it is, or None if it may be moved."""
        lasting = self._lasting[int(self._snapshot.pods.template[pod])]
        if lasting is not None:
            return lasting
        return next((each.blocker(pod) for each in self._hindrances if each.holds[pod]), None)

    def mode(self, template: int) -> Mode:
        """The gentlest way to move pods of this template."""
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
        rows = ((pods.find(move.pod), move) for move in self._circumstances.in_flight)
        return {row: move for row, move in rows if row is not None}

    @cached_property
    def _lasting(self) -> list[Blocker | None]:
        """What keeps the pods of each template where they are for good."""
        blockers = PermanentBlockers(self._snapshot, self._policy, self.workloads, self._modes)
        return [blockers.blocker(each) for each in range(len(self._snapshot.templates))]

    # ------------------------------------------------------------ what the moment says

    @cached_property
    def _hindrances(self) -> list[_Hindrance]:
        pods = self._snapshot.pods
        wrong = "it is not Ready, so something is wrong already"
        return [
            _Hindrance(self._rows(self.in_flight), self._being_migrated),
            _always(pods.deleting, "BeingDeleted", "it is on its way out"),
            _always(pods.node < 0, "NotScheduled", "it is on no node yet"),
            _always(pods.phase != RUNNING, "NotRunning", "it is not running yet"),
            _always(~pods.ready, "NotReady", wrong),
            _Hindrance(self._ages < self._policy.min_pod_age_seconds, self._too_young),
            _Hindrance(self._rows(self._pauses), self._recently_moved),
            _Hindrance(self._is_held_back[pods.template], self._why_held_back),
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
        detail = self._pauses[pod].in_words(self._circumstances.now)
        return Blocker("RecentlyMoved", detail)

    @cached_property
    def _ages(self) -> Floats:
        """In seconds; not a number, and so younger than nothing, where it is not known."""
        # The server's clock may be a little ahead of ours.
        return np.maximum(self._circumstances.now - self._snapshot.pods.created, 0.0)

    @cached_property
    def _pauses(self) -> dict[int, Cooldown]:
        """Pods that past moves let rest, by their row."""
        memory = MoveHistory(self._circumstances.history, self._circumstances.now)
        subjects = memory.subjects
        if not subjects:
            return {}
        names, pods = self.workloads.names, self._snapshot.pods
        concerned = np.array([name in subjects for name in names], bool)
        rows = set(np.flatnonzero(concerned[pods.template]).tolist())
        rows.update(row for each in subjects if (row := self._snapshot.pods.find(each)) is not None)
        nodes = self._snapshot.nodes.names
        pauses = {}
        for row in rows:
            subject = names[int(pods.template[row])] or pods.keys[row]
            node = int(pods.node[row])
            pause = memory.pause(subject, nodes[node] if node >= 0 else "")
            if pause is not None:
                pauses[row] = pause
        return pauses

    # ------------------------------------------------------------ whether budgets let it go

    @cached_property
    def _is_held_back(self) -> Bools:
        return np.array(
            [
                # A template that stays anyway need not be asked about.
                lasting is None and self._holding_back(template) is not None
                for template, lasting in enumerate(self._lasting)
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
        """A workload in trouble is not disturbed, not even by a handoff, which would only wait."""
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


def _always(holds: Bools, name: str, detail: str) -> _Hindrance:
    return _Hindrance(holds, lambda pod: Blocker(name, detail))
