"""What a generated cluster is mostly about.

Were every pod to use everything, hardly any node would ever fit, and which plugin refuses first
would hide the others. So most clusters lean on one plugin and touch the rest lightly, which gives
each plugin its chance to be the only one that refuses; some clusters mix them all.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Focus:
    """How often a workload uses what each plugin looks at."""

    name: str
    taints: float = 0.05
    selectors: float = 0.05
    ports: float = 0.05
    volumes: float = 0.05
    neighbours: float = 0.06
    spread: float = 0.05
    features: float = 0.03
    tight: float = 0.0
    """How many of the nodes are small for what is asked of them."""


MIXED = Focus("mixed", 0.25, 0.2, 0.15, 0.15, 0.15, 0.15, 0.05, tight=0.2)

FOCUSES = (
    MIXED,
    Focus("taints", taints=0.9),
    Focus("selectors", selectors=0.9),
    Focus("ports", ports=0.8),
    Focus("tight", tight=0.9),
    Focus("volumes", volumes=0.8),
    Focus("neighbours", neighbours=0.7),
    Focus("spread", spread=0.7, selectors=0.4, taints=0.3),
    Focus("features", features=0.5),
    Focus("neighbours in tight places", neighbours=0.4, spread=0.2, tight=0.5),
    Focus("volumes and neighbours", volumes=0.5, neighbours=0.3),
    replace(MIXED, name="mixed with room", tight=0.0),
)


def focus_of(seed: int) -> Focus:
    """Any dozen seeds in a row have every focus once."""
    return FOCUSES[seed % len(FOCUSES)]
