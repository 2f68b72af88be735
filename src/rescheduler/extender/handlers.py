"""The extender: kube-scheduler asks where a pod may run, where it had better, and to bind it.

Nothing is asked of the API server while the scheduler waits, but for the binding itself.
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
from rescheduler.extender.filter import Decision, FilterLimits, Wanted, decide, short_of_promised
from rescheduler.extender.node_loads import MEASURED, UNKNOWN, Candidates, NodeLoads, Rows
from rescheduler.extender.prioritize import scores
from rescheduler.extender.promised_room import Promise, PromisedRoom
from rescheduler.extender.protocol import (
    HIGHEST_SCORE,
    AskedPod,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    HostPriority,
    NodeList,
    question,
)
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.event_recorder import EventRecorder, about_pod
from rescheduler.model.objects import PodSpec
from rescheduler.model.snapshot import Bools, Floats
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.feasibility.filter_plugin import tolerates
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

CORDON_TAINT = "node.kubernetes.io/unschedulable"
ALL_OVERLOADED = "AllNodesOverloaded"
# The scheduler tries a pod again and again; those told of are remembered as long as there is room.
MOST_REMEMBERED = 10_000

GONE = -2
"""The row of a node that is planned with and no longer there; no row that is asked about."""

TooHot = Callable[[str], None]
"""Called with the name of a node that a pod has just made too hot."""


@dataclass(frozen=True, eq=False)
class Case:
    """A question with all that is known about it."""

    names: list[str]
    nodes: Candidates
    wanted: Wanted
    promised: Bools
    target: int | None


class Extender:
    """Answers kube-scheduler from the tables, by the policy and by what is planned."""

    def __init__(
        self,
        server: ApiServer,
        tables: ClusterTables,
        policy: Policy,
        planned: PromisedRoom,
        recorder: EventRecorder,
        too_hot: TooHot | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.policy = policy
        """May be replaced at any time."""
        self._server = server
        self._nodes, self._pods = tables.nodes, tables.pods
        self._loads = NodeLoads(tables, policy.node_maintenance.maintenance_label)
        self._expected = AssumedPods(tables.pods, clock)
        self._planned = planned
        self._recorder = recorder
        self._too_hot = too_hot
        self._told: OrderedDict[str, None] = OrderedDict()

    def filter(self, body: bytes) -> bytes:
        """Which of the nodes may be used, and why not the others."""
        args = question(body, ExtenderArgs)
        case = self._case(args)
        limits = self._limits()
        decision = decide(case.nodes, case.wanted, limits, case.promised, case.target)
        if decision.let_through:
            self._tell_once(args.pod, case, decision, limits)
        return msgspec.json.encode(filter_result(args, case.names, decision))

    def prioritize(self, body: bytes) -> bytes:
        """Points for each of the nodes."""
        args = question(body, ExtenderArgs)
        case = self._case(args)
        nodes, demand, key = case.nodes, case.wanted.demand, args.pod.metadata.key
        self._expected.forget(key)
        nodes = replace(nodes, used=nodes.used + self._expected.load_of(nodes.rows))
        weights, mean_load = self.policy.score_weights, self._loads.mean_load()
        points = scores(nodes, demand, weights, mean_load, case.target)
        self._expected.expect(key, nodes.rows[points == HIGHEST_SCORE], demand)
        return msgspec.json.encode(list(map(HostPriority, case.names, points.tolist())))

    async def bind(self, body: bytes) -> bytes:
        """Bind the pod; what the server has against it is the answer."""
        args = question(body, ExtenderBindingArgs)
        key = f"{args.pod_namespace}/{args.pod_name}"
        self._expect_on(args.node, key)
        try:
            await self._server.bind(key, args.node, uid=args.pod_uid)
        except ApiError as error:
            self._expected.forget(key)
            return msgspec.json.encode(ExtenderBindingResult(str(error)))
        if self._too_hot is not None and self._is_too_hot(args.node, key):
            self._too_hot(args.node)
        return msgspec.json.encode(ExtenderBindingResult())

    # ------------------------------------------------------------ what is known about a question

    def _case(self, args: ExtenderArgs) -> Case:
        names, pod = args.names(), args.pod
        demand = pod.demand()
        nodes = self._candidates(self._rows_of(names))
        target = self._planned.target_of(pod.metadata)
        promises = self._promises_on(nodes, pod)
        return Case(
            names=names,
            nodes=with_promised_load(nodes, promises),
            wanted=Wanted(
                demand=amounts(demand),
                endures_maintenance=tolerates_cordon(pod.spec),
                has_no_choice=pod.is_of_a_daemon_set,
            ),
            promised=self._short_of_promised(nodes, promises, demand),
            target=self._index_of(target, nodes) if target is not None else None,
        )

    def _rows_of(self, names: Sequence[str]) -> Rows:
        found = map(self._nodes.row_of.get, names, repeat(UNKNOWN))
        return np.fromiter(found, np.int64, len(names))

    def _candidates(self, rows: Rows) -> Candidates:
        return self._loads.candidates(rows, self.policy.node_maintenance.maintenance_label)

    def _index_of(self, node: str, nodes: Candidates) -> int | None:
        found = np.flatnonzero(nodes.rows == self._nodes.row_of.get(node, GONE))
        return int(found[0]) if len(found) else None

    def _limits(self) -> FilterLimits:
        policy = self.policy
        return FilterLimits(policy.cpu_threshold, policy.memory_threshold, policy.strict_filter)

    def _promises_on(self, nodes: Candidates, pod: AskedPod) -> dict[int, Counter[str]]:
        """What is promised to others on each of these nodes that we know."""
        promises = self._planned.promises_to_others(pod.metadata)
        if not promises:
            return {}
        row_of = self._nodes.row_of
        by_row = {row_of.get(node, GONE): held for node, held in promised_by_node(promises).items()}
        among = np.flatnonzero(np.isin(nodes.rows, list(by_row)))
        return {index: by_row[int(nodes.rows[index])] for index in among.tolist()}

    def _short_of_promised(
        self, nodes: Candidates, promises: dict[int, Counter[str]], demand: dict[str, int]
    ) -> Bools:
        """The nodes where a pod would take what others were promised."""
        short = np.zeros(len(nodes.rows), bool)
        for index, promised in promises.items():
            free = self._loads.free(int(nodes.rows[index]), promised)
            short[index] = short_of_promised(free, demand, promised)
        return short

    def _expect_on(self, node: str, key: str) -> None:
        """Count a pod where the scheduler has chosen to have it, before a watch shows it there."""
        row, held = self._nodes.row_of.get(node), self._pods.held_by(key)
        if row is not None and held is not None:
            self._expected.expect(key, np.array([row]), amounts(held))

    def _is_too_hot(self, node: str, key: str) -> bool:
        """Whether a node with a pod just bound to it, which we may or may not have seen, is."""
        held = {} if self._pods.is_on(key, node) else self._pods.held_by(key)
        nodes = self._candidates(np.array([self._nodes.row_of.get(node, UNKNOWN)]))
        return bool((nodes.utilization(amounts(held or {})) > self._limits().fractions).any())

    # ------------------------------------------------------------ telling

    def _tell_once(
        self, pod: AskedPod, case: Case, decision: Decision, limits: FilterLimits
    ) -> None:
        """Tell people, in the background, that a pod may go to nodes that are too loaded."""
        metadata = pod.metadata
        if metadata.uid in self._told:
            return
        self._told[metadata.uid] = None
        if len(self._told) > MOST_REMEMBERED:
            self._told.popitem(last=False)
        best = int(decision.passed[0])
        cpu, memory = 100 * case.nodes.utilization(case.wanted.demand)[:, best]
        message = (
            f"With this pod all nodes that could run it ({len(decision.passed)}) are above "
            f"{limits.cpu_percent:g}% of their CPU or {limits.memory_percent:g}% of their memory. "
            f"They may be used all the same; the least loaded is {case.names[best]} with CPU at "
            f"{cpu:.0f}% and memory at {memory:.0f}%."
        )
        about = about_pod(metadata.namespace, metadata.name, metadata.uid)
        self._recorder.record(about, ALL_OVERLOADED, message, warning=True)
        extra = {"pod": metadata.key, "nodes": len(decision.passed)}
        logger.info("Let overloaded nodes through for a pod", extra=extra)


def filter_result(
    args: ExtenderArgs, names: Sequence[str], decision: Decision
) -> ExtenderFilterResult:
    """A decision in the form in which the nodes came."""
    refused = {names[index]: reason for index, reason in decision.refused.items()}
    passed = decision.passed.tolist()
    if args.node_names is not None:
        passed_names = [names[index] for index in passed]
        return ExtenderFilterResult(refused, refused, node_names=passed_names)
    items = args.items
    nodes = NodeList([items[index] for index in passed])
    return ExtenderFilterResult(refused, refused, nodes=nodes)


def promised_by_node(promises: Sequence[Promise]) -> dict[str, Counter[str]]:
    """What all promises on a node come to."""
    total: dict[str, Counter[str]] = defaultdict(Counter)
    for promise in promises:
        total[promise.node].update(promise.held)
    return total


def with_promised_load(nodes: Candidates, promises: dict[int, Counter[str]]) -> Candidates:
    """The nodes as loaded as they will be when what is promised has come."""
    if not promises:
        return nodes
    used = nodes.used.copy()
    for index, promised in promises.items():
        used[:, index] += amounts(promised)[:, 0]
    return replace(nodes, used=used)


def amounts(held: Mapping[str, int]) -> Floats:
    """What is measured of some amounts, as a column."""
    return np.array([[held.get(resource, 0)] for resource in MEASURED], np.float64)


def tolerates_cordon(spec: PodSpec) -> bool:
    """Whether a pod does not mind that a node is closed."""
    return any(tolerates(each, CORDON_TAINT, "", "NoSchedule") for each in spec.tolerations)
