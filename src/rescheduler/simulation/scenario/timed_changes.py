"""Timed changes: what a workload comes down to."""

from dataclasses import dataclass
from typing import Any

from rescheduler.model.kinds import Kind

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class CreateObject:
    """A new object."""

    body: JsonObject


@dataclass(frozen=True)
class PatchObject:
    """A merge patch of an object, named by `namespace/name` or by name."""

    kind: Kind[Any]
    key: str
    body: JsonObject


@dataclass(frozen=True)
class DeleteObject:
    """The end of an object."""

    kind: Kind[Any]
    key: str


@dataclass(frozen=True)
class FailNode:
    """A node stops answering."""

    name: str


@dataclass(frozen=True)
class RestoreNode:
    """A node that had failed answers again."""

    name: str


ScenarioAction = CreateObject | PatchObject | DeleteObject | FailNode | RestoreNode


@dataclass(frozen=True)
class TimedChange:
    """One thing that happens."""

    at_seconds: float
    """After the start."""
    what: ScenarioAction
    why: str
    """For people: `shop/web is scaled to 12`."""


Timeline = tuple[TimedChange, ...]
"""Everything that happens, in order."""
