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
    PodDemand,
    filter_nodes,
    leaves_too_little,
)
from rescheduler.extender.live_node_loads import (
    MEASURED,
    UNKNOWN,
    CandidateNodes,
    LiveNodeLoads,
    NodeRows,
)
from rescheduler.extender.prioritize import node_scores
from rescheduler.extender.protocol import (
    HIGHEST_SCORE,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPod,
    HostPriority,
    NodeList,
    decoded,
)
from rescheduler.extender.waiting_migrations import PromisedRoom, WaitingMigrations
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.event_recorder import EventRecorder, about_pod
from rescheduler.labels import UNSCHEDULABLE_TAINT
from rescheduler.model.objects import PodSpec
from rescheduler.model.snapshot import Bools, Floats
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.feasibility.filter_plugin import tolerates
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

ALL_OVERLOADED = "AllNodesOverloaded"
# The scheduler tries a pod again and again; an Event about it is recorded once.
MOST_REMEMBERED = 10_000

NO_ROW = -2
"""Stands for the row of a target that no longer exists; unlike UNKNOWN, no candidate has it."""

OnOverload = Callable[[str], None]
"""Called with the name of a node that a pod has just brought above its limits."""


@dataclass(frozen=True, eq=False)
class ResolvedArgs:
    """The arguments of `filter` and `prioritize`, with all that we know about pod and nodes."""

    names: list[str]
    nodes: CandidateNodes
    demand: PodDemand
    promised: Bools
    """The nodes where the pod would take room that is promised to others."""
    target: int | None
    """The index of the node that a migration has planned for this pod."""


class ExtenderHandlers:
    """Answers kube-scheduler from the tables, the policy and the migrations under way."""

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
        self._migrations = migrations
        self._recorder = recorder
        self._on_overload = on_overload
        self._reported: OrderedDict[str, None] = OrderedDict()

    def filter(self, body: bytes) -> bytes:
        """The nodes that a pod may use, and why not the others."""
        args = decoded(body, ExtenderArgs)
        resolved = self._resolved(args)
        limits = self._limits()
        decision = filter_nodes(
            resolved.nodes, resolved.demand, limits, resolved.promised, resolved.target
        )
        if decision.all_overloaded:
            self._report_overload_once(args.pod, resolved, decision, limits)
        return msgspec.json.encode(filter_result(args, resolved.names, decision))

    def prioritize(self, body: bytes) -> bytes:
        """A score for each node."""
        args = decoded(body, ExtenderArgs)
        resolved = self._resolved(args)
        nodes, requests, key = resolved.nodes, resolved.demand.requests, args.pod.metadata.key
        self._assumed.forget(key)
        nodes = replace(nodes, used=nodes.used + self._assumed.load_on(nodes.rows))
        weights, mean_load = self.policy.score_weights, self._loads.mean_load()
        scores = node_scores(nodes, requests, weights, mean_load, resolved.target)
        self._assumed.assume(key, nodes.rows[scores == HIGHEST_SCORE], requests)
        return msgspec.json.encode(list(map(HostPriority, resolved.names, scores.tolist())))

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

    # ------------------------------------------------------------ what we know about a request

    def _resolved(self, args: ExtenderArgs) -> ResolvedArgs:
        names, pod = args.names(), args.pod
        requests = pod.requests()
        nodes = self._candidates(self._rows_of(names))
        target = self._migrations.target_of(pod.metadata)
        promises = self._promises_on(nodes, pod)
        return ResolvedArgs(
            names=names,
            nodes=with_promised_load(nodes, promises),
            demand=PodDemand(
                requests=column(requests),
                tolerates_cordon=tolerates_cordon(pod.spec),
                has_fixed_node=pod.is_of_daemon_set,
            ),
            promised=self._taking_promised_room(nodes, promises, requests),
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

    def _promises_on(self, nodes: CandidateNodes, pod: ExtenderPod) -> dict[int, Counter[str]]:
        """What is promised to others on these nodes, by index."""
        promises = self._migrations.promises_to_others(pod.metadata)
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
        self, nodes: CandidateNodes, promises: dict[int, Counter[str]], requests: dict[str, int]
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
        self, pod: ExtenderPod, args: ResolvedArgs, decision: FilterDecision, limits: FilterLimits
    ) -> None:
        """Record an Event, in the background, that a pod may go to overloaded nodes."""
        metadata = pod.metadata
        if metadata.uid in self._reported:
            return
        self._reported[metadata.uid] = None
        if len(self._reported) > MOST_REMEMBERED:
            self._reported.popitem(last=False)
        best = int(decision.passed[0])
        cpu, memory = 100 * args.nodes.utilization(args.demand.requests)[:, best]
        message = (
            f"With this pod all nodes that could run it ({len(decision.passed)}) are above "
            f"{limits.cpu_percent:g}% of their CPU or {limits.memory_percent:g}% of their memory. "
            f"They may be used all the same; the least loaded is {args.names[best]} with CPU at "
            f"{cpu:.0f}% and memory at {memory:.0f}%."
        )
        about = about_pod(metadata.namespace, metadata.name, metadata.uid)
        self._recorder.record(about, ALL_OVERLOADED, message, warning=True)
        extra = {"pod": metadata.key, "nodes": len(decision.passed)}
        logger.info("Let overloaded nodes pass for a pod", extra=extra)


def filter_result(
    args: ExtenderArgs, names: Sequence[str], decision: FilterDecision
) -> ExtenderFilterResult:
    """A decision as a response: nodes by name or whole, as they were sent."""
    refused = {names[index]: reason for index, reason in decision.refused.items()}
    passed = decision.passed.tolist()
    if args.node_names is not None:
        passed_names = [names[index] for index in passed]
        return ExtenderFilterResult(refused, refused, node_names=passed_names)
    items = args.items
    nodes = NodeList([items[index] for index in passed])
    return ExtenderFilterResult(refused, refused, nodes=nodes)


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


def column(amounts: Mapping[str, int]) -> Floats:
    """The measured resources of some amounts, as a column."""
    return np.array([[amounts.get(resource, 0)] for resource in MEASURED], np.float64)


def tolerates_cordon(spec: PodSpec) -> bool:
    """Whether a pod may be scheduled to a cordoned node."""
    tolerations = spec.tolerations
    return any(
        tolerates(toleration, UNSCHEDULABLE_TAINT, "", "NoSchedule") for toleration in tolerations
    )
