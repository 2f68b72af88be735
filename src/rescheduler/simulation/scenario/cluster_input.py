"""Clusters in files, as plain objects: what a simulation starts from."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from rescheduler.errors import SnapshotError
from rescheduler.files.cluster_file import read_cluster, without_nulls
from rescheduler.files.documents import is_json, unpacked, yaml_documents
from rescheduler.model.kinds import KIND_BY_NAME, SERVICE
from rescheduler.simulation.cluster.json_objects import Json, key_of
from rescheduler.simulation.scenario.object_validation import simulation_problem

BOM = b"\xef\xbb\xbf"
# Plans have no use for Services, but the scheduler spreads the pods behind one.
KINDS = {**KIND_BY_NAME, SERVICE.name: SERVICE}


def objects_in(files: Iterable[tuple[str, bytes]]) -> list[Json]:
    """The objects of the kinds that we know, in files as `rescheduler plan` takes them.

    Raises `SnapshotError` for whatever a plan could not be made from, and for what could not live.
    """
    files = list(files)
    read_cluster(files)
    return [each for name, data in files for each in _checked(name, _objects(unpacked(data)))]


def _checked(file: str, objects: Iterable[Json]) -> Iterator[Json]:
    for each in objects:
        if (problem := simulation_problem(each)) is not None:
            key = f" {key_of(each)}" if each["metadata"].get("name") else ""
            raise SnapshotError(f"{file}: {each['kind']}{key}: {problem}")
        yield each


def _objects(data: bytes) -> Iterator[Json]:
    documents = [msgspec.json.decode(data.removeprefix(BOM))] if is_json(data) else None
    for document in documents if documents is not None else yaml_documents(data):
        yield from _inside(without_nulls(document), {})


def _inside(document: Json, default: Json) -> Iterator[Json]:
    """The objects in a document, which may be a list of them."""
    document = {**default, **document}
    kind = document.get("kind") or ""
    if isinstance(document.get("items"), list) and (not kind or kind.endswith("List")):
        one = kind.removesuffix("List")
        said = {"apiVersion": document.get("apiVersion"), "kind": one} if one else {}
        for item in document["items"]:
            yield from _inside(item, said)
    elif kind in KINDS and _group(document) == _group_of(kind):
        yield _in_its_namespace(document)


def _in_its_namespace(document: Json) -> Json:
    metadata: Json = dict(document.get("metadata") or {})
    if KINDS[document["kind"]].namespaced:
        metadata["namespace"] = metadata.get("namespace") or "default"
    else:
        metadata.pop("namespace", None)
    return {**document, "metadata": metadata}


def _group(document: dict[str, Any]) -> str:
    return str(document.get("apiVersion") or "").rpartition("/")[0]


def _group_of(kind: str) -> str:
    return KINDS[kind].api_version.rpartition("/")[0]
