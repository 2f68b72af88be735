"""Handlers of the extender's verbs: filter, prioritize and bind.

The API server is not asked anything while the scheduler waits, except for the binding itself.
"""

import logging
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import msgspec
import numpy as np

from rescheduler.errors import ApiError
from rescheduler.extender.assumed_pods import AssumedPods
from rescheduler.extender.filter import (
    FilterDecision,
    FilterLimits,
    filter_nodes,
    leaves_too_little,
)
from rescheduler.extender.live_node_loads import (
    UNKNOWN,
    CandidateNodes,
    LiveNodeLoads,
    NodeRows,
)
from rescheduler.extender.prioritize import node_scores
from rescheduler.extender.protocol import (
    HIGHEST_SCORE,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    decoded,
)
from rescheduler.extender.retries.refused_pods import PodOnNodes, RefusedPod, RefusedPods
from rescheduler.extender.scheduling_request import SchedulingRequest, column
from rescheduler.extender.scheduling_response import FilteredNodes, ScoredNodes
from rescheduler.extender.waiting_migrations import PromisedRoom, WaitingMigrations
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.event_recorder import EventRecorder, about_pod
from rescheduler.model.snapshot import Bools
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

ALL_OVERLOADED = "AllNodesOverloaded"
# The scheduler tries a pod again and again; an Event about it is recorded once.
MOST_REMEMBERED = 10_000

# A scheduler sends each node once. It may know of nodes that our watch has not shown yet.
MOST_PER_KNOWN_NODE, MOST_UNKNOWN_NODES = 2, 1_000

NO_ROW = -2
"""Stands for the row of a target that no longer exists; unlike UNKNOWN, no candidate has it."""

OnOverload = Callable[[str], None]
"""Called with the name of a node that a pod has just brought above its limits."""


@dataclass(frozen=True, eq=False)
class ResolvedNodes:
    """The nodes of a request, with all that we know about them and the pod."""

    nodes: CandidateNodes
    promised: Bools
    """The nodes where the pod would take room that is promised to others."""
    target: int | None
    """The index of the node that a migration has planned for this pod."""


class ExtenderHandlers:
    """Answers kube-scheduler from the tables, the policy and the migrations under way.

    Anyone may be able to ask for filter and prioritize. Only what a scheduler asks that we know by
    its name makes us reserve, assume, mark or record anything.
    """

    def __init__(
        self,
        server: ApiServer,
        tables: ClusterTables,
        policy: Policy,
        migrations: WaitingMigrations,
        recorder: EventRecorder,
        *,
        on_overload: OnOverload | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.policy = policy
        """May be replaced at any time."""
        self._server = server
        self._nodes, self._pods = tables.nodes, tables.pods
        self._loads = LiveNodeLoads(tables, policy.maintenance_label)
        self._assumed = AssumedPods(tables.pods, clock)
        self._refused = RefusedPods(tables.pods)
        self._migrations = migrations
        self._recorder = recorder
        self._on_overload = on_overload
        self._reported: OrderedDict[str, None] = OrderedDict()

    @property
    def most_nodes(self) -> int:
        """How many nodes a request may have; some may be new, and we do not know them yet."""
        return MOST_PER_KNOWN_NODE * len(self._nodes.row_of) + MOST_UNKNOWN_NODES

    def filter(
        self, request: SchedulingRequest, *, is_from_scheduler: bool = True
    ) -> FilteredNodes:
        """The nodes that a pod may use, and why not the others."""
        asked = self._pod_on_nodes(request)
        resolved = self._resolved(asked, reserve=is_from_scheduler)
        decision = self._filtered(asked, resolved)
        if is_from_scheduler:
            if len(decision.passed):
                self._refused.forget(asked.pod.uid)
            else:
                self._refused.add(asked)
            if decision.all_overloaded:
                self._report_overload_once(request, resolved.nodes, decision)
        return FilteredNodes(request, decision)

    def prioritize(
        self, request: SchedulingRequest, *, is_from_scheduler: bool = True
    ) -> ScoredNodes:
        """A score for each node."""
        resolved = self._resolved(self._pod_on_nodes(request), reserve=is_from_scheduler)
        nodes, requests, key = resolved.nodes, request.demand.requests, request.pod.key
        if is_from_scheduler:
            self._assumed.forget(key)
        nodes = replace(nodes, used=nodes.used + self._assumed.load_on(nodes.rows))
        weights, mean_load = self.policy.score_weights, self._loads.mean_load()
        scores = node_scores(nodes, requests, weights, mean_load, resolved.target)
        if is_from_scheduler:
            self._assumed.assume(key, nodes.rows[scores == HIGHEST_SCORE], requests)
        return ScoredNodes(request, scores)

    async def bind(self, body: bytes) -> bytes:
        """Bind the pod; if the API server refuses, its message is the response."""
        args = decoded(body, ExtenderBindingArgs)
        key = f"{args.pod_namespace}/{args.pod_name}"
        self._assume_on(args.node, key)
        try:
            await self._server.bind(key, args.node, uid=args.pod_uid)
        except ApiError as error:
            self._assumed.forget(key)
            return msgspec.json.encode(ExtenderBindingResult(str(error)))
        if self._on_overload is not None and self._is_overloaded(args.node, key):
            self._on_overload(args.node)
        return msgspec.json.encode(ExtenderBindingResult())

    def take_accepted(self) -> list[RefusedPod]:
        """Pods that were refused everywhere and would not be now, though nobody asks again."""
        return self._refused.take_accepted(self._accepts)

    def put_back(self, taken: RefusedPod) -> None:
        """The scheduler could not be told about such a pod: take it again later."""
        self._refused.put_back(taken)

    # ------------------------------------------------------------ what we know about a request

    def _pod_on_nodes(self, request: SchedulingRequest) -> PodOnNodes:
        rows = self._rows_of(request.names)
        return PodOnNodes(request.pod, request.requests, request.demand, rows)

    def _accepts(self, asked: PodOnNodes) -> bool:
        # A node that is gone would accept any pod, like one that our watch has not shown yet.
        rows = self._loads.still_there(asked.rows, self.policy.maintenance_label)
        asked = replace(asked, rows=rows)
        decision = self._filtered(asked, self._resolved(asked, reserve=False))
        return bool(len(decision.passed))

    def _filtered(self, asked: PodOnNodes, resolved: ResolvedNodes) -> FilterDecision:
        nodes, promised, target = resolved.nodes, resolved.promised, resolved.target
        return filter_nodes(nodes, asked.demand, self._limits(), promised, target)

    def _resolved(self, asked: PodOnNodes, *, reserve: bool) -> ResolvedNodes:
        nodes = self._candidates(asked.rows)
        target = self._migrations.target_of(asked.pod, reserve=reserve)
        promises = self._migrations.promises_to_others(asked.pod)
        ours_to_keep = [promise for promise in promises if not promise.kept_by_scheduler]
        return ResolvedNodes(
            nodes=with_promised_load(nodes, self._by_index(promises, nodes)),
            promised=self._taking_promised_room(
                nodes, self._by_index(ours_to_keep, nodes), asked.requests
            ),
            target=self._index_of(target, nodes) if target is not None else None,
        )

    def _rows_of(self, names: Sequence[str]) -> NodeRows:
        found = map(self._nodes.row_of.get, names, repeat(UNKNOWN))
        return np.fromiter(found, np.int64, len(names))

    def _candidates(self, rows: NodeRows) -> CandidateNodes:
        return self._loads.candidates(rows, self.policy.maintenance_label)

    def _index_of(self, node: str, nodes: CandidateNodes) -> int | None:
        found = np.flatnonzero(nodes.rows == self._nodes.row_of.get(node, NO_ROW))
        return int(found[0]) if len(found) else None

    def _limits(self) -> FilterLimits:
        policy = self.policy
        return FilterLimits(policy.cpu_threshold, policy.memory_threshold, policy.strict_filter)

    def _by_index(
        self, promises: Sequence[PromisedRoom], nodes: CandidateNodes
    ) -> dict[int, Counter[str]]:
        """What is promised on these nodes, by index."""
        if not promises:
            return {}
        row_of = self._nodes.row_of
        by_row = {
            row_of.get(node, NO_ROW): amounts
            for node, amounts in promised_by_node(promises).items()
        }
        indexes = np.flatnonzero(np.isin(nodes.rows, list(by_row)))
        return {index: by_row[int(nodes.rows[index])] for index in indexes.tolist()}

    def _taking_promised_room(
        self, nodes: CandidateNodes, promises: dict[int, Counter[str]], requests: Mapping[str, int]
    ) -> Bools:
        """The nodes where a pod would take room that is promised to others."""
        taking = np.zeros(len(nodes.rows), bool)
        for index, promised in promises.items():
            free = self._loads.free(int(nodes.rows[index]), promised)
            taking[index] = leaves_too_little(free, requests, promised)
        return taking

    def _assume_on(self, node: str, key: str) -> None:
        """Count a pod on the node that the scheduler has chosen, before a watch shows it there."""
        row, held = self._nodes.row_of.get(node), self._pods.held_by(key)
        if row is not None and held is not None:
            self._assumed.assume(key, np.array([row]), column(held))

    def _is_overloaded(self, node: str, key: str) -> bool:
        """Whether a node is above its limits with a pod that was just bound to it.

        The table may or may not show the pod there already.
        """
        held = {} if self._pods.is_on(key, node) else self._pods.held_by(key)
        nodes = self._candidates(np.array([self._nodes.row_of.get(node, UNKNOWN)]))
        return bool((nodes.utilization(column(held or {})) > self._limits().fractions).any())

    # ------------------------------------------------------------ Events

    def _report_overload_once(
        self,
        request: SchedulingRequest,
        nodes: CandidateNodes,
        decision: FilterDecision,
    ) -> None:
        """Record an Event, in the background, that a pod may go to overloaded nodes."""
        pod = request.pod
        if pod.uid in self._reported:
            return
        self._reported[pod.uid] = None
        if len(self._reported) > MOST_REMEMBERED:
            self._reported.popitem(last=False)
        best, limits = int(decision.passed[0]), self._limits()
        cpu, memory = 100 * nodes.utilization(request.demand.requests)[:, best]
        message = (
            f"With this pod all nodes that could run it ({len(decision.passed)}) are above "
            f"{limits.cpu_percent:g}% of their CPU or {limits.memory_percent:g}% of their memory. "
            f"They may be used all the same; the least loaded is {request.names[best]} with CPU at "
            f"{cpu:.0f}% and memory at {memory:.0f}%."
        )
        about = about_pod(pod.namespace, pod.name, pod.uid)
        self._recorder.record(about, ALL_OVERLOADED, message, warning=True)
        extra = {"pod": pod.key, "nodes": len(decision.passed)}
        logger.info("Let overloaded nodes pass for a pod", extra=extra)


def promised_by_node(promises: Sequence[PromisedRoom]) -> dict[str, Counter[str]]:
    """The sum of all promises on each node."""
    total: dict[str, Counter[str]] = defaultdict(Counter)
    for promise in promises:
        total[promise.node].update(promise.amounts)
    return total


def with_promised_load(nodes: CandidateNodes, promises: dict[int, Counter[str]]) -> CandidateNodes:
    """The nodes as loaded as they will be when the promised room is taken."""
    if not promises:
        return nodes
    used = nodes.used.copy()
    for index, promised in promises.items():
        used[:, index] += column(promised)[:, 0]
    return replace(nodes, used=used)
