"""May this pod be moved at all? Nothing in the way, or the blocker.

Whether a node would accept the pod is asked elsewhere (`feasibility`); here is what the pod, its
owner, its budgets, its past moves and the policy say. Permanent blockers (it is a DaemonSet's) are
checked before temporary ones (its budget allows nothing right now), so the first one found says
most.

What replicas share is checked once for their template, and what they do not share is in columns,
so that asking for all pods at once is hardly more work than asking for one.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.objects import PodDisruptionBudget
from rescheduler.model.rules.rollouts import stuck_rollout
from rescheduler.model.selectors import selects
from rescheduler.model.snapshot import (
    NO_NODE,
    RUNNING,
    UNKNOWN,
    UNKNOWN_NODE,
    Bools,
    Floats,
    Ints,
    Snapshot,
)
from rescheduler.model.unreadable_objects import UnreadableObject
from rescheduler.planning.context import DEFAULT_CONTEXT, MoveInFlight, PlanningContext
from rescheduler.planning.movability.blocker import BEING_DELETED, BEING_MIGRATED, Blocker
from rescheduler.planning.movability.excluded_pods import EXCLUDED, excluded_one_by_one
from rescheduler.planning.movability.group_parts import GroupPart, GroupParts
from rescheduler.planning.movability.move_history import (
    SEEN_GONE_AFTER,
    Cooldown,
    MoveHistory,
    time_in_words,
)
from rescheduler.planning.movability.move_modes import MoveModes
from rescheduler.planning.movability.permanent_blockers import PermanentBlockers
from rescheduler.planning.movability.workload_health import WorkloadHealth
from rescheduler.planning.movability.workload_owners import WorkloadOwners
from rescheduler.settings import Policy

__all__ = ["Blocker", "Movability"]


class _TemporaryBlocker(NamedTuple):
    """Something that keeps some pods where they are for the moment, and the blocker for one.

    It is no bound method: movability, and its snapshot, would refer to themselves, and be kept in
    memory long after the plan.
    """

    holds: Bools
    blocker: "Callable[[Movability, int], Blocker]"


class Movability:
    """What stands in the way of moving each pod of a snapshot, and how it would be moved."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        context: PlanningContext = DEFAULT_CONTEXT,
        as_it_is: Snapshot | None = None,
        requested_strategies: Collection[str] = (),
        held_parts: Mapping[GroupPart, str] = {},
    ) -> None:
        """`as_it_is`: the snapshot without pods that only stand in for others.

        `requested_strategies`: by name, those after whose moves pods may return. `held_parts`:
        parts of pod groups that cannot leave together, and why.
        """
        self.workloads = WorkloadOwners(as_it_is or snapshot)
        self._health = WorkloadHealth(as_it_is or snapshot, self.workloads, context.unreplaced_from)
        self._snapshot = snapshot
        self._policy = policy
        self._context = context
        self._requested_strategies = requested_strategies
        self._held_parts = held_parts
        self.group_parts = GroupParts(snapshot, policy.maintenance_label)
        self._modes = MoveModes(snapshot, self.workloads, context)
        self._budgets_of: dict[int, list[PodDisruptionBudget]] = {}

    @cached_property
    def movable(self) -> Bools:
        """For each pod whether `blocker` finds nothing."""
        movable = self._movable_alone.copy()
        movable[list(self._group_blockers)] = False
        movable.flags.writeable = False
        return movable

    def blocker(self, pod: int) -> Blocker | None:
        """The first thing that keeps the pod where it is, or None if it may be moved."""
        return self._own_blocker(pod) or self._group_blockers.get(pod)

    def _own_blocker(self, pod: int) -> Blocker | None:
        """What keeps the pod where it is, whatever its pod group does."""
        permanent = self._permanent[int(self._snapshot.pods.template[pod])]
        if permanent is not None:
            return permanent
        holding = (temporary for temporary in self._temporary if temporary.holds[pod])
        return next((temporary.blocker(self, pod) for temporary in holding), None)

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
        """The pods that are being migrated and are still there, by their row; not paused ones."""
        return {row: move for row, move in self._unfinished.items() if not move.is_paused}

    @cached_property
    def left_nodes(self) -> dict[int, Ints]:
        """By template: nodes that its pods have left, or are leaving, as a strategy wanted it.

        They do not return there without a more urgent cause. Templates without such nodes are
        not in it.
        """
        leaving = self._nodes_being_left()
        return self._by_template(
            {*self._history.avoiding, *leaving},
            lambda subject: self._history.left_nodes(subject) | leaving.get(subject, set()),
        )

    def _nodes_being_left(self) -> dict[str, set[str]]:
        """By workload: the nodes that its pods in flight leave because a strategy wanted it."""
        nodes: defaultdict[str, set[str]] = defaultdict(set)
        pods = self._snapshot.pods
        for move in self._context.in_flight:
            if move.is_paused or not move.strategy or move.strategy in self._requested_strategies:
                continue
            row = pods.find(move.pod)
            if row is not None:
                name = self.workloads.names[int(pods.template[row])]
                nodes[name].add(self._snapshot.nodes.names[int(pods.node[row])])
            elif move.source:
                nodes[move.workload].add(move.source)
        return nodes

    @cached_property
    def failed_targets(self) -> dict[int, Ints]:
        """By template: the rows of nodes to which moves of its pods have just failed."""
        return self._by_template(self._history.avoiding, self._history.failed_targets)

    def _by_template(
        self, subjects: Collection[str], nodes_of: Callable[[str], set[str]]
    ) -> dict[int, Ints]:
        """The rows of the nodes that there are for these workloads and bare pods."""
        if not subjects:
            return {}
        templates: defaultdict[int, set[str]] = defaultdict(set)
        for template, name in enumerate(self.workloads.names):
            if name in subjects:
                templates[template] |= nodes_of(name)
        pods = self._snapshot.pods
        for subject in subjects:
            if (row := pods.find(subject)) is not None:
                templates[int(pods.template[row])] |= nodes_of(subject)
        row_of = {name: row for row, name in enumerate(self._snapshot.nodes.names)}
        found = {
            template: np.array(sorted(row_of[name] for name in names if name in row_of), np.int32)
            for template, names in templates.items()
        }
        return {template: rows for template, rows in found.items() if len(rows)}

    @cached_property
    def _history(self) -> MoveHistory:
        return MoveHistory(self._context.history, self._context.now, self._requested_strategies)

    @cached_property
    def _unfinished(self) -> dict[int, MoveInFlight]:
        """The pods that have a Migration and are still there, by their row."""
        pods = self._snapshot.pods
        rows = ((pods.find(move.pod), move) for move in self._context.in_flight)
        return {row: move for row, move in rows if row is not None}

    @cached_property
    def _moved_away(self) -> set[int]:
        """Rows of pods that others have just replaced: what is known of pods may be a bit older.

        Much later, such a name is that of another pod, even if it seems to be as old.
        """
        pods, earliest = self._snapshot.pods, self._context.now - SEEN_GONE_AFTER
        rows = (
            (pods.find(move.pod), move)
            for move in self._context.history
            if move.at > earliest
            and move.new_pod not in ("", move.pod)
            and move.outcome != Outcome.FAILED
        )
        return {row for row, move in rows if row is not None and pods.created[row] < move.at}

    @cached_property
    def _movable_alone(self) -> Bools:
        """For each pod whether it may be moved, whatever its pod group does."""
        free = np.array([blocker is None for blocker in self._permanent], bool)
        movable: Bools = free[self._snapshot.pods.template]
        for temporary in self._temporary:
            movable &= ~temporary.holds
        return movable

    @cached_property
    def _group_blockers(self) -> dict[int, Blocker]:
        """Pods that stay because their group does, by their row."""
        blockers: dict[int, Blocker] = {}
        for part, rows in self.group_parts.members.items():
            reason = self._straggler(rows) or self._held_parts.get(part)
            if reason is not None:
                blocker = Blocker("PodGroup", f"{part.in_words}{reason}")
                blockers.update(dict.fromkeys(rows, blocker))
        return blockers

    def _straggler(self, rows: list[int]) -> str | None:
        """The pod that cannot leave with its group, and why. Those that leave already can."""
        deleting = self._snapshot.pods.deleting
        for row in rows:
            leaves_already = deleting[row] or row in self.in_flight or row in self._moved_away
            if not (self._movable_alone[row] or leaves_already):
                blocker = self._own_blocker(row)
                assert blocker is not None, "it is not movable"
                key = self._snapshot.pods.keys[row]
                return f", and {key} cannot: {blocker.name}, {blocker.detail}"
        return None

    @cached_property
    def _permanent(self) -> list[Blocker | None]:
        """What keeps the pods of each template where they are for good."""
        blockers = PermanentBlockers(self._snapshot, self._policy, self.workloads, self._modes)
        return [blockers.blocker(template) for template in range(len(self._snapshot.templates))]

    # ------------------------------------------------------------ temporary blockers

    @cached_property
    def _temporary(self) -> list[_TemporaryBlocker]:
        pods = self._snapshot.pods
        excluded = excluded_one_by_one(self._policy.excluded_pod_selector, self._snapshot)
        return [
            _TemporaryBlocker(excluded, lambda movability, pod: EXCLUDED),
            _TemporaryBlocker(self._is_held_by_unreadable[pods.template], Movability._unreadable),
            _TemporaryBlocker(self._rows(self._unfinished), Movability._being_migrated),
            _always(pods.deleting, BEING_DELETED, "it is being deleted"),
            _TemporaryBlocker(self._rows(self._moved_away), Movability._already_moved),
            _always(pods.node == NO_NODE, "NotScheduled", "it is on no node yet"),
            _always(
                pods.node == UNKNOWN_NODE,
                "NodeMissing",
                "its node is not known: it may be just deleted",
            ),
            _TemporaryBlocker(pods.phase != RUNNING, Movability._not_running),
            _TemporaryBlocker(~pods.ready, Movability._not_ready),
            _TemporaryBlocker(self._ages < self._policy.min_pod_age_seconds, Movability._too_young),
            _TemporaryBlocker(self._rows(self._cooldowns), Movability._recently_moved),
            _TemporaryBlocker(self._is_held_back[pods.template], Movability._why_held_back),
        ]

    def _rows(self, rows: Collection[int]) -> Bools:
        marked = np.zeros(len(self._snapshot.pods), bool)
        marked[list(rows)] = True
        return marked

    @cached_property
    def _unreadable_in(self) -> dict[str, UnreadableObject]:
        """An object that may forbid every move in its namespace, and cannot be read."""
        return {obj.held_namespace: obj for obj in self._snapshot.unreadable if obj.held_namespace}

    @cached_property
    def _is_held_by_unreadable(self) -> Bools:
        templates = self._snapshot.templates
        return np.array([pod.namespace in self._unreadable_in for pod in templates], bool)

    def _unreadable(self, pod: int) -> Blocker:
        obj = self._unreadable_in[self._snapshot.template_of(pod).namespace]
        detail = f"{obj.kind} {obj.key} cannot be decoded, and may forbid the move"
        return Blocker("UnreadableObject", detail)

    def _being_migrated(self, pod: int) -> Blocker:
        move = self._unfinished[pod]
        if move.is_paused:
            return Blocker(BEING_MIGRATED, f"its Migration to {move.target} is paused")
        return Blocker(BEING_MIGRATED, f"it is on its way to {move.target} already")

    def _already_moved(self, pod: int) -> Blocker:
        return Blocker(BEING_MIGRATED, "its move has ended, and it is about to be seen gone")

    def _not_running(self, pod: int) -> Blocker:
        if self._has_silent_node(pod):
            return Blocker("NotRunning", self._silence(pod))
        is_unknown = self._snapshot.pods.phase[pod] == UNKNOWN
        detail = "its phase is Unknown" if is_unknown else "it is not running yet"
        return Blocker("NotRunning", detail)

    def _not_ready(self, pod: int) -> Blocker:
        if self._has_silent_node(pod):
            return Blocker("NotReady", self._silence(pod))
        return Blocker("NotReady", "it is not Ready, so something is wrong already")

    def _has_silent_node(self, pod: int) -> bool:
        return not self._snapshot.nodes.ready[self._snapshot.pods.node[pod]]

    def _silence(self, pod: int) -> str:
        """A node that stops reporting says nothing about its pods; others mark them not Ready."""
        node = self._snapshot.nodes.names[self._snapshot.pods.node[pod]]
        return f"its node {node} is not Ready, so it is not known whether it runs"

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
        history = self._history
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
        return (
            self._short_of_pods(template)
            or self._stuck_rollout(template)
            or self._incomplete_workload(template)
            or self._eviction_blocker(template)
        )

    def _stuck_rollout(self, template: int) -> Blocker | None:
        """Its Deployment is in the middle of a rollout, and a move would wait for its end."""
        # Looked for only if there are any: each look costs, and most clusters have none.
        key = self.workloads.deployment(template) if self._stuck_rollouts else ""
        if key not in self._stuck_rollouts:
            return None
        detail = f"Deployment {key} is stuck in a rollout: {self._stuck_rollouts[key]}"
        return Blocker("RolloutStuck", detail)

    @cached_property
    def _stuck_rollouts(self) -> dict[str, str]:
        """The Deployments whose rollouts do not go on, and why."""
        deployments = self._snapshot.deployments.items()
        found = ((key, stuck_rollout(deployment)) for key, deployment in deployments)
        return {key: reason for key, reason in found if reason}

    def _incomplete_workload(self, template: int) -> Blocker | None:
        """Its owner must not lose another pod, and a handoff would only wait for the others."""
        shortage = self._health.shortage(template)
        return Blocker("WorkloadNotReady", shortage) if shortage is not None else None

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
        is_job = self.workloads.is_job(template)
        if self.replicas(template) <= 1 and owner is not None and not is_job:
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
    return _TemporaryBlocker(holds, lambda movability, pod: Blocker(name, detail))
