"""Questions as kube-scheduler asks them, to an extender with a cluster made of a few objects."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rescheduler.extender.handlers import Extender
from rescheduler.extender.promised_room import Promise, PromisedRoom
from rescheduler.kube.event_recorder import EventRecorder
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.model.kinds import KIND_BY_NAME
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Policy
from testcluster.builders import node
from testcluster.client import JsonObject

Nobody: Any = None
"""The server of an extender that has no reason to talk to one."""


class PlannedFor:
    """Migrations that have planned a node for some pods, and need room on nodes; if any."""

    def __init__(self, targets: Mapping[str, str] = {}, promises: Sequence[Promise] = ()) -> None:
        self.targets = targets
        self.promises = promises

    def target_of(self, pod: PodMeta) -> str | None:
        return self.targets.get(pod.key)

    def promises_to_others(self, pod: PodMeta) -> Sequence[Promise]:
        return self.promises


def tables_of(objects: Iterable[JsonObject]) -> ClusterTables:
    """Tables that hold these objects."""
    tables = ClusterTables()
    for item in objects:
        put(tables, item)
    return tables


def put(tables: ClusterTables, item: JsonObject) -> None:
    """Let an object come or change."""
    kind = KIND_BY_NAME[item["kind"]]
    tables.of(kind).put(msgspec.convert(item, kind.type))


class Told(EventRecorder):
    """Keeps what people would be told."""

    def __init__(self) -> None:
        super().__init__(Nobody)
        self.events: list[tuple[str, str, str]] = []

    def record(
        self, about: Mapping[str, str], reason: str, message: str, *, warning: bool = False
    ) -> bool:
        self.events.append((about["name"], reason, message))
        return True


def extender_for(
    objects: Iterable[JsonObject] | ClusterTables,
    planned: PromisedRoom | None = None,
    told: Told | None = None,
    **policy: Any,
) -> Extender:
    """An extender that knows these objects and follows this policy."""
    tables = objects if isinstance(objects, ClusterTables) else tables_of(objects)
    return Extender(Nobody, tables, Policy(**policy), planned or PlannedFor(), told or Told())


def asked(pod: JsonObject, names: Sequence[str] | None) -> bytes:
    """The question of a scheduler that knows us to have the nodes ourselves."""
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names})


def asked_with_nodes(pod: JsonObject, nodes: Sequence[JsonObject]) -> bytes:
    """The question of a scheduler that sends whole nodes."""
    return msgspec.json.encode({"Pod": pod, "Nodes": {"items": nodes}, "NodeNames": None})


def filtered(extender: Extender, pod: JsonObject, names: Sequence[str]) -> list[str]:
    """The names of the nodes that may be used."""
    answer: list[str] = answered(extender.filter(asked(pod, names)))["NodeNames"]
    return answer


def refused(extender: Extender, pod: JsonObject, names: Sequence[str]) -> dict[str, str]:
    """Why nodes may not be used."""
    answer = answered(extender.filter(asked(pod, names)))
    assert not answer["Error"]
    unresolvable = answer["FailedAndUnresolvableNodes"]
    assert answer["FailedNodes"] == unresolvable, "the scheduler would try to preempt pods there"
    reasons: dict[str, str] = answer["FailedAndUnresolvableNodes"]
    return reasons


def scored(extender: Extender, pod: JsonObject, names: Sequence[str]) -> dict[str, int]:
    """The points of each node."""
    answer = answered(extender.prioritize(asked(pod, names)))
    return {each["Host"]: each["Score"] for each in answer}


def answered(answer: bytes) -> Any:
    """An answer as kube-scheduler reads it."""
    return msgspec.json.decode(answer)


def nodes(*names: str, **options: Any) -> list[JsonObject]:
    """Nodes of 10 CPUs and 10 GiB, so that percentages are easy to see."""
    return [node(name, **{"cpu": "10", "memory": "10Gi", **options}) for name in names]
