"""The state of the cluster in a few numbers, before a plan and after it."""

import numpy as np

from rescheduler.model.snapshot import Floats
from rescheduler.planning.load import NodeLoad
from rescheduler.planning.objective import Objective
from rescheduler.planning.plan import Assessment, Spread

_TOLD = ("cpu", "memory")
_ONE_POD = 0.5


def assess(load: NodeLoad, utilization: Floats, objective: Objective) -> Assessment:
    """How utilisation lies over all nodes, and what that is worth to the objective."""
    names = load.snapshot.nodes.names
    told = {resource: utilization[:, column] for column, resource in enumerate(_TOLD)}
    pods = utilization[:, 2] * load.capacity[:, 2]
    return Assessment(
        utilization={resource: _spread(values) for resource, values in told.items()},
        nodes_in_use=int((pods - _daemon_pods(load) > _ONE_POD).sum()),
        objective=objective.value(utilization),
        per_node={
            name: {resource: float(values[row]) for resource, values in told.items()}
            for row, name in enumerate(names)
        },
    )


def _spread(values: Floats) -> Spread:
    if not len(values):
        return Spread(0.0, 0.0, 0.0, 0.0)
    return Spread(
        mean=float(values.mean()),
        standard_deviation=float(values.std()),
        minimum=float(values.min()),
        maximum=float(values.max()),
    )


def _daemon_pods(load: NodeLoad) -> Floats:
    """Pods that are on a node because it is there, which does not put it to use."""
    snapshot = load.snapshot
    by_template = np.array(
        [
            template.owner is not None and template.owner.kind in ("DaemonSet", "Node")
            for template in snapshot.templates
        ],
        bool,
    )
    pods = snapshot.pods
    rows = np.flatnonzero(pods.placed)
    nodes = pods.node[rows[by_template[pods.template[rows]]]]
    return np.bincount(nodes, minlength=len(snapshot.nodes)).astype(np.float64)
