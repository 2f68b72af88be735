"""Terms of the objective that depend on which pod is where, not only on how much nodes hold."""

from typing import Protocol

from rescheduler.model.snapshot import Floats, Ints


class PodTerm(Protocol):
    """What a strategy wants of single pods, kept up to date as they move."""

    strategy: str
    """The name of the strategy that wants it."""

    def total(self) -> float:
        """What it costs that all pods are where they are at the start."""

    def is_wanting(self) -> bool:
        """Whether there is anything to do at the start."""

    def promise(self, templates: Ints, nodes: Ints) -> Floats:
        """What is gained at most if a pod of each of these templates leaves its node."""

    def relief(self, template: int, node: int) -> float:
        """What is gained if such a pod leaves the node; less than nothing if it is missed."""

    def arrival(self, template: int, source: int) -> Floats | None:
        """What it costs if such a pod goes from there to each node; None if nothing anywhere."""

    def follow(self, template: int, source: int, target: int) -> set[int]:
        """A pod has moved; nodes whose pods now have more or less to gain by leaving."""

    def reason(self, template: int, node: int) -> str:
        """Why such a pod should leave the node, if it gains by leaving."""
