"""NodeMaintenance: a node labelled for maintenance is emptied of every pod that can move."""

import numpy as np

from rescheduler.labels import MAINTENANCE
from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.load import NodeLoad
from rescheduler.settings import Policy

# More than anything else can gain: a person asked for this.
_WEIGHT = 1e6


class NodeMaintenance:
    """What is left on the nodes under maintenance."""

    name = "NodeMaintenance"

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        self._under_maintenance = load.under_maintenance

    def pressed(self, utilization: Floats) -> Bools:
        return self._under_maintenance

    def cost(self, utilization: Floats, nodes: int | slice) -> Floats:
        remaining = utilization[..., 2]
        return np.asarray(np.where(self._under_maintenance[nodes], _WEIGHT * remaining, 0.0))

    def reason(self, node: int, utilization: Floats) -> str:
        return f"the label {MAINTENANCE}=true"

    def avoids(self, utilization: Floats) -> Bools:
        return self._under_maintenance
