"""Flavours: what a generated cluster is mostly about.

Were every pod to use everything, hardly any node would ever fit, and which rule refuses first
would hide the others. So most clusters lean on one rule and touch the rest lightly, which gives
each rule its chance to be the only one that refuses; some clusters mix them all.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Flavour:
    """How often a workload uses what each rule looks at."""

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


MIXED = Flavour("mixed", 0.25, 0.2, 0.15, 0.15, 0.15, 0.15, 0.05, tight=0.2)

FLAVOURS = (
    MIXED,
    Flavour("taints", taints=0.9),
    Flavour("selectors", selectors=0.9),
    Flavour("ports", ports=0.8),
    Flavour("tight", tight=0.9),
    Flavour("volumes", volumes=0.8),
    Flavour("neighbours", neighbours=0.7),
    Flavour("spread", spread=0.7, selectors=0.4, taints=0.3),
    Flavour("features", features=0.5),
    Flavour("neighbours in tight places", neighbours=0.4, spread=0.2, tight=0.5),
    Flavour("volumes and neighbours", volumes=0.5, neighbours=0.3),
    replace(MIXED, name="mixed with room", tight=0.0),
)


def flavour_of(seed: int) -> Flavour:
    """Seeds take turns, so any run of a dozen seeds has all flavours."""
    return FLAVOURS[seed % len(FLAVOURS)]
