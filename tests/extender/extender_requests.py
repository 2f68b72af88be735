"""Requests as kube-scheduler sends them, to handlers that know a cluster of a few objects."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rescheduler.extender.handlers import ExtenderHandlers
from rescheduler.extender.scheduling_request import scheduling_request
from rescheduler.extender.waiting_migrations import PromisedRoom, WaitingMigrations
from rescheduler.kube.event_recorder import EventRecorder
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.model.kinds import KIND_BY_NAME
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Policy
from testcluster.builders import node
from testcluster.client import JsonObject

NO_SERVER: Any = None
"""For handlers that have no reason to call an API server."""


class Planned(WaitingMigrations):
    """What migrations have planned, given directly: targets by pod, and promised room."""

    def __init__(
        self, targets: Mapping[str, str] = {}, promises: Sequence[PromisedRoom] = ()
    ) -> None:
        self.targets = targets
        self.promises = promises
        self.reserved_for: list[str] = []

    def target_of(self, pod: PodMeta, *, reserve: bool = True) -> str | None:
        if reserve:
            self.reserved_for.append(pod.name)
        return self.targets.get(pod.key)

    def promises_to_others(self, pod: PodMeta) -> Sequence[PromisedRoom]:
        return self.promises


def tables_of(objects: Iterable[JsonObject]) -> ClusterTables:
    """Tables with these objects."""
    tables = ClusterTables()
    for item in objects:
        put(tables, item)
    return tables


def put(tables: ClusterTables, item: JsonObject) -> None:
    """Add or replace an object, as a watch would."""
    kind = KIND_BY_NAME[item["kind"]]
    tables.of(kind).put(msgspec.convert(item, kind.type))


def remove(tables: ClusterTables, item: JsonObject) -> None:
    """Remove an object, as a watch would."""
    kind = KIND_BY_NAME[item["kind"]]
    tables.of(kind).remove(msgspec.convert(item, kind.type))


class RecordedEvents(EventRecorder):
    """Keeps the Events that would be created."""

    def __init__(self) -> None:
        super().__init__(NO_SERVER)
        self.events: list[tuple[str, str, str]] = []

    def record(
        self, about: Mapping[str, str], reason: str, message: str, *, warning: bool = False
    ) -> bool:
        self.events.append((about["name"], reason, message))
        return True


def extender_for(
    objects: Iterable[JsonObject] | ClusterTables,
    planned: Planned | None = None,
    events: RecordedEvents | None = None,
    **policy: Any,
) -> ExtenderHandlers:
    """Handlers that know these objects and follow this policy."""
    tables = objects if isinstance(objects, ClusterTables) else tables_of(objects)
    return ExtenderHandlers(
        NO_SERVER, tables, Policy(**policy), planned or Planned(), events or RecordedEvents()
    )


def with_names(pod: JsonObject, names: Sequence[str] | None) -> bytes:
    """The request of a scheduler that has us as `nodeCacheCapable`."""
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names})


def with_nodes(pod: JsonObject, nodes: Sequence[JsonObject]) -> bytes:
    """The request of a scheduler that sends whole nodes."""
    return msgspec.json.encode({"Pod": pod, "Nodes": {"items": nodes}, "NodeNames": None})


def filter_response(extender: ExtenderHandlers, body: bytes) -> bytes:
    """The response to a request of `filter`."""
    return extender.filter(scheduling_request(body, extender.most_nodes)).encoded()


def prioritize_response(extender: ExtenderHandlers, body: bytes) -> bytes:
    """The response to a request of `prioritize`."""
    return extender.prioritize(scheduling_request(body, extender.most_nodes)).encoded()


def filtered(extender: ExtenderHandlers, pod: JsonObject, names: Sequence[str]) -> list[str]:
    """The names of the nodes that pass."""
    passed: list[str] = decoded(filter_response(extender, with_names(pod, names)))["NodeNames"]
    return passed


def refused(extender: ExtenderHandlers, pod: JsonObject, names: Sequence[str]) -> dict[str, str]:
    """Why nodes do not pass."""
    result = decoded(filter_response(extender, with_names(pod, names)))
    assert not result["Error"]
    unresolvable: dict[str, str] = result["FailedAndUnresolvableNodes"]
    assert result["FailedNodes"] == unresolvable, "the scheduler would try to preempt pods there"
    return unresolvable


def scored(extender: ExtenderHandlers, pod: JsonObject, names: Sequence[str]) -> dict[str, int]:
    """The score of each node."""
    return scores_in(prioritize_response(extender, with_names(pod, names)))


def scores_in(response: bytes) -> dict[str, int]:
    """The scores in a response of `prioritize`, by name of the node."""
    return {entry["Host"]: entry["Score"] for entry in decoded(response)}


def decoded(response: bytes) -> Any:
    """A response as kube-scheduler reads it."""
    return msgspec.json.decode(response)


def nodes(*names: str, **options: Any) -> list[JsonObject]:
    """Nodes of 10 CPUs and 10 GiB, so that percentages are easy to see."""
    return [node(name, **{"cpu": "10", "memory": "10Gi", **options}) for name in names]
