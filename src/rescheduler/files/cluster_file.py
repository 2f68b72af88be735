"""Cluster files: what `kubectl get nodes,pods,… -A -o json` writes, read and written.

A file is a `List` of objects, or one kind's list, or single objects; JSON, or YAML with any
number of documents; packed with gzip or not. Several files together make one cluster. Kinds that
we do not read are skipped.

A file is written by people too, so whatever is wrong with it is raised as a `SnapshotError` that
names the file, the object, the field, the value, and what was expected.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from rescheduler.errors import SnapshotError
from rescheduler.files.documents import BadDocument, is_json, unpacked, yaml_documents
from rescheduler.files.object_checks import problem_with
from rescheduler.files.problems import LONGEST_VALUE, InvalidValue, problem_of
from rescheduler.model.kinds import KIND_BY_NAME, Kind
from rescheduler.model.objects import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables

EXPECTED = "expected JSON or YAML as `kubectl get nodes,pods -A -o json` writes it"
LIST_START = b'{"apiVersion":"v1","kind":"List","items":[\n'
LIST_END = b"\n]}\n"

_FINISHED = ("Succeeded", "Failed")


def read_cluster(files: Iterable[tuple[str, bytes]]) -> Snapshot:
    """The cluster that these files, each a name and its content, describe together."""
    reader = _Reader()
    for name, data in files:
        reader.read_file(name, data)
    reader.check_nodes()
    return reader.tables.snapshot()


def encode_object(kind: Kind[Any], obj: Any) -> bytes:
    """An object as JSON, as an item of a file: what we read of it and nothing else."""
    head = f'{{"apiVersion":"{kind.api_version}","kind":"{kind.name}",'
    return head.encode() + msgspec.json.encode(obj)[1:]


class _Head(msgspec.Struct, rename="camel"):
    """What decides how the rest is read."""

    api_version: Any = None
    kind: Any = None
    items: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Json:
    """An object that is still JSON, decoded only as far as someone asks."""

    def __init__(self, raw: msgspec.Raw) -> None:
        self._raw = raw
        self.head = _decoder(_Head).decode(raw)

    @property
    def has_items(self) -> bool:
        return self.head.items is not msgspec.UNSET

    def items(self) -> Any:
        """The items, each still JSON, or whatever is there instead of a list."""
        assert isinstance(self.head.items, msgspec.Raw)
        try:
            return _decoder(list[msgspec.Raw] | None).decode(self.head.items)
        except msgspec.ValidationError:
            return msgspec.json.decode(self.head.items)

    def plain(self) -> Any:
        """The object as dicts and lists, for messages; empty if it is too broken for that."""
        try:
            return msgspec.json.decode(bytes(self._raw).decode(errors="replace"))
        except msgspec.DecodeError:
            return {}

    def decoded(self, type: Any) -> Any:
        """The object as a struct. A null that Go would take for nothing counts as absent."""
        try:
            return _decoder(type).decode(self._raw)
        except msgspec.ValidationError:
            return msgspec.convert(without_nulls(self.plain()), type)


class _Yaml:
    """An object that was YAML, which left its nulls out already."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content
        self.head = _Head(content.get("apiVersion"), content.get("kind"))

    @property
    def has_items(self) -> bool:
        return "items" in self._content

    def items(self) -> Any:
        """Whatever is where the items should be."""
        return self._content["items"]

    def plain(self) -> Any:
        """The object as dicts and lists."""
        return self._content

    def decoded(self, type: Any) -> Any:
        """The object as a struct."""
        return msgspec.convert(self._content, type)


@dataclass(frozen=True)
class _Place:
    """Where in which file we are, for messages."""

    file: str
    inside: str = ""

    def __truediv__(self, part: str) -> "_Place":
        return _Place(self.file, f"{self.inside} {part}".strip())

    def error(self, what: object) -> SnapshotError:
        return SnapshotError(
            ": ".join(part for part in (self.file, self.inside, str(what)) if part)
        )

    def object_error(self, kind: str, content: Any, what: object) -> SnapshotError:
        """Name the object by its own name, if it has one."""
        metadata = content.get("metadata") if isinstance(content, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str) or not name:
            return self.error(what)
        assert isinstance(metadata, dict)
        scope = f"{metadata.get('namespace') or 'default'}/"
        key = f"{scope}{name}" if KIND_BY_NAME[kind].namespaced else name
        return SnapshotError(f"{self.file}: {kind} {key}: {what}")


class _Reader:
    """Fills tables from files, and remembers what messages and checks across files need."""

    def __init__(self) -> None:
        self.tables = ClusterTables()
        self._file_of: dict[tuple[str, str], str] = {}
        self._first_pod_on: dict[str, tuple[str, str]] = {}

    def read_file(self, name: str, data: bytes) -> None:
        place = _Place(name)
        try:
            for document, where in _documents(unpacked(data), place):
                self._read(document, where, _Head())
        except BadDocument as error:
            raise place.error(error) from error
        except RecursionError as error:
            raise place.error("too many levels inside one another") from error

    def check_nodes(self) -> None:
        """A pod on a node that no file has is most likely a file forgotten."""
        for node, (file, key) in self._first_pod_on.items():
            if node not in self.tables.nodes:
                problem = InvalidValue(
                    "spec.nodeName", "expected a node that is in the files", node
                )
                raise SnapshotError(f"{file}: Pod {key}: {problem}")

    def _read(self, document: _Json | _Yaml, place: _Place, default: _Head) -> None:
        api_version = _text_of("apiVersion", document.head.api_version, default, place)
        kind_name = _text_of("kind", document.head.kind, default, place)
        if _is_list(kind_name, document.has_items):
            self._read_items(document, place, _Head(api_version, kind_name.removesuffix("List")))
            return
        if not kind_name or not api_version:
            missing = "apiVersion" if kind_name else "kind"
            raise place.error(InvalidValue(missing, "missing: expected a Kubernetes object"))
        kind = KIND_BY_NAME.get(kind_name)
        if kind is not None and _group(kind.api_version) == _group(api_version):
            self._read_object(kind, document, place)

    def _read_items(self, document: _Json | _Yaml, place: _Place, default: _Head) -> None:
        if not document.has_items:
            raise place.error(InvalidValue("items", "missing: expected a list of objects"))
        items = document.items()
        if items is None:
            return  # as Go writes an empty list
        if not isinstance(items, list):
            raise place.error(InvalidValue("items", "expected a list of objects", items))
        if not default.kind:
            default = _Head()
        for index, item in enumerate(items):
            where = place / f"items[{index}]"
            self._read(_document(item, where), where, default)

    def _read_object(self, kind: Kind[Any], document: _Json | _Yaml, place: _Place) -> None:
        try:
            obj = document.decoded(kind.type)
            self._add(kind, obj, place.file)
        except msgspec.ValidationError as error:
            content = document.plain()
            raise place.object_error(kind.name, content, problem_of(error, content)) from error
        except _BadObject as error:
            raise place.object_error(kind.name, document.plain(), error.problem) from error
        # Broken text in a field that only now was looked at.
        except (msgspec.DecodeError, ValueError) as error:
            raise place.object_error(kind.name, document.plain(), error) from error

    def _add(self, kind: Kind[Any], obj: Any, file: str) -> None:
        if (problem := problem_with(obj)) is not None:
            raise _BadObject(problem)
        obj = _in_its_namespace(kind, obj)
        key = obj.metadata.key
        first = self._file_of.setdefault((kind.name, key), file)
        table = self.tables.of(kind)
        if key in table:
            also = "in this file" if first == file else f"in {first}"
            raise _BadObject(InvalidValue("metadata.name", f"there is another of this name {also}"))
        table.put(obj)
        if isinstance(obj, Pod) and obj.spec.node_name and obj.status.phase not in _FINISHED:
            self._first_pod_on.setdefault(obj.spec.node_name, (file, key))


class _BadObject(Exception):
    """An object that could be decoded, and yet is impossible."""

    def __init__(self, problem: InvalidValue) -> None:
        super().__init__(str(problem))
        self.problem = problem


@cache
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type)


def _documents(data: bytes, place: _Place) -> Iterator[tuple[_Json | _Yaml, _Place]]:
    if is_json(data):
        yield _document(msgspec.Raw(data.removeprefix(b"\xef\xbb\xbf")), place), place
        return
    documents = yaml_documents(data)
    if not documents:
        raise place.error(f"empty: {EXPECTED}")
    for number, content in enumerate(documents, start=1):
        where = place / f"document {number}" if len(documents) > 1 else place
        yield _document(content, where), where


def _document(content: Any, place: _Place) -> _Json | _Yaml:
    if isinstance(content, dict):
        return _Yaml(content)
    if not isinstance(content, msgspec.Raw):
        raise place.error(InvalidValue("", EXPECTED, content))
    try:
        return _Json(content)
    except msgspec.ValidationError as error:
        start = bytes(content)[:LONGEST_VALUE].decode(errors="replace")
        raise place.error(f"{' '.join(start.split())}: {EXPECTED}") from error
    except UnicodeDecodeError as error:
        raise place.error(f"{error.reason}: expected text encoded as UTF-8") from error
    except msgspec.DecodeError as error:
        raise place.error(f"{error}: {EXPECTED}") from error


def _text_of(field: str, value: Any, default: _Head, place: _Place) -> str:
    if value is None:
        value = (default.api_version if field == "apiVersion" else default.kind) or ""
    if not isinstance(value, str):
        raise place.error(InvalidValue(field, "expected text", value))
    return value


def _is_list(kind_name: str, has_items: bool) -> bool:
    """Whether it is a list of objects. Some kinds are merely called so, such as an `AllowList`."""
    if has_items:
        return not kind_name or kind_name.endswith("List")
    return kind_name == "List" or (
        kind_name.endswith("List") and kind_name.removesuffix("List") in KIND_BY_NAME
    )


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _in_its_namespace(kind: Kind[Any], obj: Any) -> Any:
    metadata = obj.metadata
    namespace = (metadata.namespace or "default") if kind.namespaced else ""
    if namespace == metadata.namespace:
        return obj
    metadata = msgspec.structs.replace(metadata, namespace=namespace)
    return msgspec.structs.replace(obj, metadata=metadata)


def without_nulls(content: Any) -> Any:
    """The same without keys that have no value: to Kubernetes they are not there."""
    if isinstance(content, dict):
        return {key: without_nulls(value) for key, value in content.items() if value is not None}
    if isinstance(content, list):
        return [without_nulls(value) for value in content]
    return content
