"""Checks that a null in an object is a field left out, for the objects of any cluster."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import msgspec

from rescheduler.extender.protocol import ExtenderPod
from rescheduler.extender.webhook.admission import AdmittedPod
from rescheduler.kube.watch_events import decoder_of
from rescheduler.migration.migration_object import MIGRATION
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.workload_objects import LabelMapSelector, WorkloadObject
from rescheduler.model.json_decoder import without_nulls
from rescheduler.model.kinds import KINDS, SERVICE, Kind
from testcluster.client import Client as OutsideClient
from testcluster.client import JsonObject
from tests.kube.optional_fields import optional_fields, with_field, with_random_fields

MOST_OF_A_KIND = 3
SEEDS = range(5)

# The other structs that objects of a kind are decoded as.
FURTHER_VIEWS: Mapping[str, tuple[Any, ...]] = {
    "Pod": (MovingPod, ExtenderPod, AdmittedPod),
    "ReplicaSet": (WorkloadObject,),
    "ReplicationController": (LabelMapSelector, WorkloadObject),
}

ALL_KINDS: dict[str, Kind[Any]] = {kind.name: kind for kind in (*KINDS, SERVICE, MIGRATION)}


def objects_of(client: OutsideClient, is_wanted: Callable[[JsonObject], bool]) -> list[JsonObject]:
    """Objects of every kind that we read, as the server writes them; a few of each kind."""
    found: list[JsonObject] = []
    for kind in ALL_KINDS.values():
        items = [item for item in client.get(kind.path)["items"] or [] if is_wanted(item)]
        described = {"apiVersion": kind.api_version, "kind": kind.name}
        for item in items[:MOST_OF_A_KIND]:
            # Nobody reads who changed which field, and it is most of the object.
            item["metadata"].pop("managedFields", None)
            found.append({**item, **described})
    return found


def views_of(item: JsonObject) -> list[Any]:
    """All structs that an object is decoded as."""
    return [ALL_KINDS[item["kind"]].type, *FURTHER_VIEWS.get(item["kind"], ())]


def check_each_field(item: JsonObject) -> None:
    """Every optional field, one at a time: null is as left out, and empty is no error."""
    for view in views_of(item):
        decode = decoder_of(view).decode
        for field in optional_fields(item, view):
            null = decode(msgspec.json.encode(with_field(item, field, None)))
            left_out = decode(msgspec.json.encode(with_field(item, field, msgspec.UNSET)))
            assert comparable(null) == comparable(left_out), f"{item['kind']} {field}"
            if (empty := field.empty()) is not msgspec.UNSET:
                decode(msgspec.json.encode(with_field(item, field, empty)))


def check_random_fields(item: JsonObject) -> None:
    """Many optional fields at once."""
    for view in views_of(item):
        decode = decoder_of(view).decode
        for seed in SEEDS:
            null, left_out = (
                with_random_fields(item, view, Random(seed), value)
                for value in (None, msgspec.UNSET)
            )
            found = decode(msgspec.json.encode(null))
            expected = decode(msgspec.json.encode(left_out))
            assert comparable(found) == comparable(expected), f"{item['kind']}, seed {seed}"


def comparable(decoded: Any) -> Any:
    """The struct, or plain data if parts of it stay JSON: nulls in these mean nothing, either."""
    if type(decoded) in {kind.type for kind in ALL_KINDS.values()}:
        return decoded
    stripped = without_nulls(msgspec.json.decode(msgspec.json.encode(decoded)))
    again = decoder_of(type(decoded)).decode(msgspec.json.encode(stripped))
    return msgspec.json.decode(msgspec.json.encode(again))
