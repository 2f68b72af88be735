"""What migrations under way have planned, as far as it concerns where other pods go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rescheduler.migration.moving_pod import PodMeta


@dataclass(frozen=True)
class Promise:
    """Room that a migration under way needs on its target and has not taken yet."""

    migration: str
    """Its uid."""
    node: str
    held: Mapping[str, int]
    """How much of each resource, in the scheduler's units."""


class PromisedRoom(Protocol):
    """Who knows what is planned."""

    def target_of(self, pod: PodMeta) -> str | None:
        """The node that a migration has planned for this pod, if any has."""
        ...

    def promises_to_others(self, pod: PodMeta) -> Sequence[Promise]:
        """All promises but the one made to this very pod."""
        ...
