"""Cluster files: what `kubectl get nodes,pods,… -A -o json` writes, read and written.

Several files together can describe one cluster. Kinds that we do not use are skipped.

People write such files too, so whatever is wrong with one is raised as a `SnapshotError` that names
the file, the object, the field, the value, and what was expected.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from rescheduler.errors import SnapshotError
from rescheduler.files.bad_document import BadDocument
from rescheduler.files.invalid_value import BadValue, InvalidValue
from rescheduler.files.object_checks import problem_with
from rescheduler.files.object_documents import Location, ObjectDocument, objects_in_file
from rescheduler.labels import SNAPSHOT_TIME
from rescheduler.model.kinds import KIND_BY_NAME, KINDS, Kind
from rescheduler.model.objects import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables

LIST_END = b"\n]}\n"

_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class ClusterFiles:
    """What files say."""

    snapshot: Snapshot
    written_at: datetime | None
    """When the last of them was written; None if they do not say so."""


def read_cluster(files: Iterable[tuple[str, bytes]]) -> Snapshot:
    """The cluster that these files, each a name and its content, describe together."""
    return read_cluster_files(files).snapshot


def read_cluster_files(files: Iterable[tuple[str, bytes]]) -> ClusterFiles:
    """The same cluster, and when it was so."""
    reader = _Reader()
    for _ in reader.read(files):
        pass
    return ClusterFiles(reader.tables.snapshot(), reader.written_at)


def list_start(written_at: datetime) -> bytes:
    """What a file begins with that is written at this time."""
    annotations = {SNAPSHOT_TIME: written_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    metadata = msgspec.json.encode({"annotations": annotations})
    return b'{"apiVersion":"v1","kind":"List","metadata":' + metadata + b',"items":[\n'


@dataclass(frozen=True, eq=False)
class FileObject:
    """An object of a cluster that can be planned for."""

    kind: Kind[Any]
    _document: ObjectDocument

    def plain(self) -> dict[str, Any]:
        """All of the object as plain data: without nulls, with its kind and its namespace."""
        content = self._document.plain()
        metadata = dict(content["metadata"])
        if self.kind.namespaced:
            metadata["namespace"] = metadata.get("namespace") or "default"
        else:
            metadata.pop("namespace", None)
        of_kind = {"apiVersion": self._document.api_version, "kind": self.kind.name}
        return {**of_kind, **content, "metadata": metadata}

    def error(self, problem: InvalidValue) -> SnapshotError:
        """An error about this object."""
        return self._document.error(self.kind, problem)


def read_objects(
    files: Iterable[tuple[str, bytes]], more_kinds: Iterable[Kind[Any]] = ()
) -> Iterator[FileObject]:
    """The objects in files, of the kinds that plans need and of others.

    Raises `SnapshotError` for everything that `read_cluster` refuses, some of it only at the end.
    """
    return _Reader(more_kinds).read(files)


def encode_object(kind: Kind[Any], obj: Any) -> bytes:
    """An object as JSON, as an item of a file: what we read of it and nothing else."""
    head = f'{{"apiVersion":"{kind.api_version}","kind":"{kind.name}",'
    return head.encode() + msgspec.json.encode(obj)[1:]


class _Reader:
    """Fills tables from files, and remembers what messages and checks across files need."""

    def __init__(self, more_kinds: Iterable[Kind[Any]] = ()) -> None:
        self.tables = ClusterTables()
        self.written_at: datetime | None = None
        self._kinds = {**KIND_BY_NAME, **{kind.name: kind for kind in more_kinds}}
        self._file_of: dict[tuple[str, str], str] = {}
        self._first_pod_on: dict[str, tuple[str, str]] = {}

    def read(self, files: Iterable[tuple[str, bytes]]) -> Iterator[FileObject]:
        for name, data in files:
            yield from self._read_file(name, data)
        self._check_nodes()

    def _read_file(self, name: str, data: bytes) -> Iterator[FileObject]:
        try:
            for document in objects_in_file(name, data):
                self._note_time(document.written_at)
                kind = self._kinds.get(document.kind)
                if kind is not None and document.is_of(kind):
                    self._read_object(kind, document)
                    yield FileObject(kind, document)
        except BadDocument as error:
            raise Location(name).error(error) from error
        except RecursionError as error:
            raise Location(name).error("too many levels inside one another") from error

    def _note_time(self, written_at: datetime | None) -> None:
        if written_at is not None and (self.written_at is None or self.written_at < written_at):
            self.written_at = written_at

    def _read_object(self, kind: Kind[Any], document: ObjectDocument) -> None:
        try:
            self._add(kind, document.decoded(kind.type), document.location.file)
        except BadValue as error:
            raise document.error(kind, error.problem) from error
        # Broken text in a field that only now was looked at.
        except (msgspec.DecodeError, ValueError) as error:
            raise document.error(kind, error) from error

    def _add(self, kind: Kind[Any], obj: Any, file: str) -> None:
        if (problem := problem_with(obj)) is not None:
            raise BadValue(problem)
        obj = _in_its_namespace(kind, obj)
        key = obj.metadata.key
        if (first := self._file_of.get((kind.name, key))) is not None:
            where = "in this file" if first == file else f"in {first}"
            what = f"there is another of this name {where}"
            raise BadValue(InvalidValue("metadata.name", what))
        self._file_of[kind.name, key] = file
        if kind in KINDS:
            self.tables.of(kind).put(obj)
        if isinstance(obj, Pod) and obj.spec.node_name and obj.status.phase not in _FINISHED:
            self._first_pod_on.setdefault(obj.spec.node_name, (file, key))

    def _check_nodes(self) -> None:
        """If most nodes are in no file, a file was most likely forgotten.

        A few are missing in any busy cluster: they were deleted while the list was written.
        """
        missing = [node for node in self._first_pod_on if node not in self.tables.nodes]
        if len(missing) > len(self.tables.nodes):
            file, key = self._first_pod_on[missing[0]]
            what = "expected a node that is in the files"
            problem = InvalidValue("spec.nodeName", what, missing[0])
            raise SnapshotError(f"{file}: Pod {key}: {problem}")


def _in_its_namespace(kind: Kind[Any], obj: Any) -> Any:
    metadata = obj.metadata
    namespace = (metadata.namespace or "default") if kind.namespaced else ""
    if namespace == metadata.namespace:
        return obj
    metadata = msgspec.structs.replace(metadata, namespace=namespace)
    return msgspec.structs.replace(obj, metadata=metadata)
