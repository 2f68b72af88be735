"""Timed changes to a cluster: what a workload file is turned into before the run starts."""

from dataclasses import dataclass
from typing import Any

from rescheduler.model.kinds import Kind
from rescheduler.simulation.cluster.json_objects import Json


@dataclass(frozen=True)
class CreateObject:
    """Creates an object."""

    body: Json


@dataclass(frozen=True)
class PatchObject:
    """Applies a merge patch to an object, named by `namespace/name` or by name."""

    kind: Kind[Any]
    key: str
    body: Json


@dataclass(frozen=True)
class DeleteObject:
    """Deletes an object, named by `namespace/name` or by name."""

    kind: Kind[Any]
    key: str


@dataclass(frozen=True)
class FailNode:
    """A node stops reporting: its Ready condition becomes Unknown."""

    name: str


@dataclass(frozen=True)
class RestoreNode:
    """A failed node reports again."""

    name: str


ScenarioAction = CreateObject | PatchObject | DeleteObject | FailNode | RestoreNode


@dataclass(frozen=True)
class TimedChange:
    """An action and when it happens."""

    at_seconds: float
    """After the start."""
    action: ScenarioAction
    description: str
    """For people: `shop/web is scaled to 12`."""


Timeline = tuple[TimedChange, ...]
"""All changes of a run, in order."""
