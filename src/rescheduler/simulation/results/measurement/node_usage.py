"""How full nodes are: sums of requests that follow every change, and samples of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from rescheduler.model.objects import Node
from rescheduler.model.resources import CPU, MEMORY, amounts_of, in_units
from rescheduler.model.rules.node_availability import NodeLabel, is_open_to_users
from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.feasibility.plugins.taint_toleration import hard_taints
from rescheduler.planning.node_prices import node_prices
from rescheduler.simulation.cluster.json_objects import Json, is_ready
from rescheduler.simulation.results.measurement.pod_facts import PodFacts


@dataclass(frozen=True)
class UsageSample:
    """All nodes at one time."""

    names: tuple[str, ...]
    loads: Floats
    """The mean of CPU and memory utilisation of each; NaN for a node that is not ready."""
    imbalance: float
    deviation: float
    nodes_in_use: int
    cost: float


class NodeUsage:
    """The requests on each node, summed up."""

    def __init__(self, prices: Mapping[str, float], maintenance_label: NodeLabel) -> None:
        self._maintenance_label = maintenance_label
        self._prices = dict(prices)
        self._nodes: dict[str, Json] = {}
        # By node: CPU in millicores, memory in bytes, pods that do not belong to the node.
        self._sums: dict[str, list[int]] = {}
        self._constants: _NodeConstants | None = None

    def node_changed(self, old: Json | None, new: Json | None) -> None:
        """A node was added, changed or deleted."""
        if new is not None:
            name = new["metadata"]["name"]
            self._nodes[name] = new
            self._sums.setdefault(name, [0, 0, 0])
        elif old is not None:
            self._nodes.pop(old["metadata"]["name"], None)
        self._constants = None

    def has_failed(self, node: str) -> bool:
        """Whether a node is not ready, or deleted."""
        found = self._nodes.get(node)
        return found is None or not is_ready(found)

    def add(self, pod: PodFacts, count: int) -> None:
        """Count a pod on its node, or no longer (count -1)."""
        sums = self._sums.setdefault(pod.node, [0, 0, 0])
        sums[0] += count * pod.cpu_millis
        sums[1] += count * pod.memory_bytes
        sums[2] += count * (not pod.belongs_to_node)

    def sample(self) -> UsageSample:
        """The state of all nodes now."""
        if self._constants is None:
            self._constants = _NodeConstants.of(self._nodes, self._prices, self._maintenance_label)
        constants = self._constants
        requested = np.array([self._sums[name] for name in constants.names], np.float64).reshape(
            -1, 3
        )
        loads = np.asarray((requested[:, :2] / constants.capacity).mean(axis=1))
        in_use = requested[:, 2] > 0
        balanced = loads[constants.open]
        return UsageSample(
            names=constants.names,
            loads=np.where(constants.ready, loads, np.nan),
            imbalance=float(np.ptp(balanced)) if len(balanced) else 0.0,
            deviation=float(balanced.std()) if len(balanced) else 0.0,
            nodes_in_use=int(in_use.sum()),
            cost=float(constants.prices[in_use].sum()),
        )


@dataclass(frozen=True)
class _NodeConstants:
    """What changes only when a node does."""

    names: tuple[str, ...]
    capacity: Floats
    open: Bools
    ready: Bools
    prices: Floats

    @staticmethod
    def of(
        nodes: Mapping[str, Json], prices: dict[str, float], maintenance_label: NodeLabel
    ) -> "_NodeConstants":
        ordered = sorted(nodes.items())
        objects = tuple(msgspec.convert(node, Node) for _, node in ordered)
        amounts = [in_units(amounts_of(node.status.allocatable)) for node in objects]
        capacity = [[amount.get(CPU, 0), amount.get(MEMORY, 0)] for amount in amounts]
        counted = np.array(capacity, np.float64).reshape(-1, 2)
        ready = [is_ready(node) for _, node in ordered]
        # Nodes that most pods may not run on say nothing about balance.
        is_open = [
            is_open_to_users(node, maintenance_label) and not hard_taints(node.spec.taints)
            for node in objects
        ]
        return _NodeConstants(
            names=tuple(name for name, _ in ordered),
            capacity=np.where(counted > 0, counted, np.inf),
            open=np.array(ready, bool) & np.array(is_open, bool),
            ready=np.array(ready, bool),
            prices=node_prices(objects, prices),
        )
