"""The state of the cluster in a few numbers, before a plan and after it."""

import numpy as np

from rescheduler.model.rules.immovable_pods import belongs_to_node
from rescheduler.model.snapshot import Floats, Ints
from rescheduler.planning.node_load import NodeLoad
from rescheduler.planning.plan import Assessment, UtilizationSpread

_REPORTED = ("cpu", "memory")


def assess(
    load: NodeLoad,
    used: Floats,
    in_use: Ints,
    objective: float,
    measures: dict[str, dict[str, float]],
) -> Assessment:
    """How utilisation lies over all nodes; `in_use` are each node's pods that are not its own."""
    utilization = load.utilization(used)
    reported = dict(zip(_REPORTED, utilization, strict=False))
    cpu, memory = (values.tolist() for values in reported.values())
    return Assessment(
        utilization={resource: _spread(values) for resource, values in reported.items()},
        nodes_in_use=int((in_use > 0).sum()),
        objective=objective,
        per_node={
            name: {"cpu": of_cpu, "memory": of_memory}
            for name, of_cpu, of_memory in zip(load.snapshot.nodes.names, cpu, memory, strict=True)
        },
        measures=measures,
    )


def _spread(values: Floats) -> UtilizationSpread:
    if not len(values):
        return UtilizationSpread(0.0, 0.0, 0.0, 0.0)
    return UtilizationSpread(
        mean=float(values.mean()),
        standard_deviation=float(values.std()),
        minimum=float(values.min()),
        maximum=float(values.max()),
    )


def pods_in_use(load: NodeLoad) -> Ints:
    """How many pods put each node to use: those that are not there because it is there."""
    snapshot = load.snapshot
    belongs = np.array([belongs_to_node(pod.owner_kind) for pod in snapshot.templates], bool)
    pods = snapshot.pods
    rows = np.flatnonzero(pods.placed)
    nodes = pods.node[rows[~belongs[pods.template[rows]]]]
    return np.bincount(nodes, minlength=len(snapshot.nodes)).astype(np.int32)
