"""The Kubernetes objects in a file, found but not decoded: lists are opened, kinds are known.

A file is a `List` of objects, or the list of one kind, or single objects; JSON, or YAML with any
number of documents; packed with gzip or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import msgspec

from rescheduler.errors import SnapshotError
from rescheduler.files.conversion import converted
from rescheduler.files.documents import is_json, unpacked, without_byte_order_mark, yaml_documents
from rescheduler.files.invalid_value import LONGEST_VALUE, BadValue, InvalidValue
from rescheduler.labels import SNAPSHOT_TIME
from rescheduler.model.json_decoder import without_nulls
from rescheduler.model.kinds import KIND_BY_NAME, Kind

EXPECTED = "expected JSON or YAML as `kubectl get nodes,pods -A -o json` writes it"


@dataclass(frozen=True)
class Location:
    """A place in a file, for messages."""

    file: str
    inside: str = ""

    def __truediv__(self, part: str) -> "Location":
        return Location(self.file, f"{self.inside} {part}".strip())

    def error(self, what: object) -> SnapshotError:
        """An error that names the place."""
        return SnapshotError(
            ": ".join(part for part in (self.file, self.inside, str(what)) if part)
        )


@dataclass(frozen=True, eq=False)
class ObjectDocument:
    """One object, decoded only as far as someone asks."""

    api_version: str
    kind: str
    location: Location
    _content: "_Json | _Yaml"
    written_at: datetime | None = None
    """When the list that it is in was written, if the list says so."""

    def decoded(self, type: Any) -> Any:
        """The object as a struct. A null counts as absent, as it does for Kubernetes."""
        return self._content.decoded(type)

    def plain(self) -> dict[str, Any]:
        """All of the object as dicts and lists, without nulls; empty if it is too broken."""
        content = self._content.plain()
        return content if isinstance(content, dict) else {}

    def is_of(self, kind: Kind[Any]) -> bool:
        """Whether the object is of a kind, in any version of its API group."""
        return self.kind == kind.name and _group(self.api_version) == _group(kind.api_version)

    def error(self, kind: Kind[Any], what: object) -> SnapshotError:
        """An error that names the object, or its place if it has no name."""
        metadata = self.plain().get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
            return self.location.error(what)
        namespace = metadata.get("namespace") or "default"
        key = f"{namespace}/{name}" if kind.namespaced else name
        return SnapshotError(f"{self.location.file}: {kind.name} {key}: {what}")


def objects_in_file(name: str, data: bytes) -> Iterator[ObjectDocument]:
    """All objects in a file, given its name and its content.

    Raises `BadDocument` or `SnapshotError` for what is no file of objects.
    """
    file = Location(name)
    data = unpacked(data)
    if is_json(data):
        yield from _objects(msgspec.Raw(without_byte_order_mark(data)), file, _OUTSIDE_LISTS)
        return
    documents = yaml_documents(data)
    if not documents:
        raise file.error(f"empty: {EXPECTED}")
    for number, content in enumerate(documents, start=1):
        location = file / f"document {number}" if len(documents) > 1 else file
        yield from _objects(content, location, _OUTSIDE_LISTS)


class _Head(msgspec.Struct, rename="camel"):
    """What decides how the rest is read."""

    api_version: Any = None
    kind: Any = None
    metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    items: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _FromList(NamedTuple):
    """What a list says about its items. Those of a list of one kind need not repeat its kind."""

    api_version: str | None = None
    kind: str | None = None
    written_at: datetime | None = None


_OUTSIDE_LISTS = _FromList()


class _Json:
    """An object that is still JSON."""

    def __init__(self, raw: msgspec.Raw) -> None:
        self._raw = raw
        self.head = _decoder(_Head).decode(raw)

    @property
    def has_items(self) -> bool:
        return self.head.items is not msgspec.UNSET

    def metadata(self) -> Any:
        """The metadata as plain data, or whatever is there instead."""
        raw = self.head.metadata
        return without_nulls(msgspec.json.decode(raw)) if isinstance(raw, msgspec.Raw) else None

    def items(self) -> Any:
        """The items, each still JSON, or whatever is there instead of a list."""
        assert isinstance(self.head.items, msgspec.Raw)
        try:
            return _decoder(list[msgspec.Raw] | None).decode(self.head.items)
        except msgspec.ValidationError:
            return msgspec.json.decode(self.head.items)

    def plain(self) -> Any:
        try:
            content = msgspec.json.decode(bytes(self._raw).decode(errors="replace"))
        except msgspec.DecodeError:
            return {}
        return without_nulls(content)

    def decoded(self, type: Any) -> Any:
        try:
            return _decoder(type).decode(self._raw)
        except msgspec.ValidationError:
            return converted(self.plain(), type)


class _Yaml:
    """An object that was YAML, which was read without its nulls."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content
        self.head = _Head(content.get("apiVersion"), content.get("kind"))

    @property
    def has_items(self) -> bool:
        return "items" in self._content

    def metadata(self) -> Any:
        """Whatever is where the metadata should be."""
        return self._content.get("metadata")

    def items(self) -> Any:
        """Whatever is where the items should be."""
        return self._content["items"]

    def plain(self) -> Any:
        return self._content

    def decoded(self, type: Any) -> Any:
        return converted(self._content, type)


@cache
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type)


def _objects(content: Any, location: Location, outer: _FromList) -> Iterator[ObjectDocument]:
    """The object in a document, or those in the list that it is."""
    document = _document(content, location)
    api_version = _text("apiVersion", document.head.api_version, outer.api_version, location)
    kind = _text("kind", document.head.kind, outer.kind, location)
    if _is_list(kind, document.has_items):
        item_kind = kind.removesuffix("List")
        written_at = _written_at(document, location) or outer.written_at
        said = _FromList(written_at=written_at)
        if item_kind:
            said = _FromList(api_version, item_kind, written_at)
        yield from _items(document, location, said)
        return
    if not kind or not api_version:
        missing = "apiVersion" if kind else "kind"
        raise location.error(InvalidValue(missing, "missing: expected a Kubernetes object"))
    yield ObjectDocument(api_version, kind, location, document, outer.written_at)


def _written_at(document: _Json | _Yaml, location: Location) -> datetime | None:
    """When a list was written, if `rescheduler snapshot` has written it."""
    metadata = document.metadata()
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(SNAPSHOT_TIME) if isinstance(annotations, dict) else None
    if text is None:
        return None
    field = f"metadata.annotations[{SNAPSHOT_TIME!r}]"
    try:
        written_at = converted(text, datetime, field)
    except BadValue as error:
        raise location.error(error.problem) from error
    if written_at.tzinfo is None:
        raise location.error(InvalidValue(field, "expected a time with its time zone", text))
    return written_at


def _items(
    document: _Json | _Yaml, location: Location, said: _FromList
) -> Iterator[ObjectDocument]:
    if not document.has_items:
        raise location.error(InvalidValue("items", "missing: expected a list of objects"))
    items = document.items()
    if items is None:
        return  # as Go writes an empty list
    if not isinstance(items, list):
        raise location.error(InvalidValue("items", "expected a list of objects", items))
    for index, item in enumerate(items):
        yield from _objects(item, location / f"items[{index}]", said)


def _document(content: Any, location: Location) -> _Json | _Yaml:
    if isinstance(content, dict):
        return _Yaml(content)
    if not isinstance(content, msgspec.Raw):
        raise location.error(InvalidValue("", EXPECTED, content))
    try:
        return _Json(content)
    except msgspec.ValidationError as error:
        start = bytes(content)[:LONGEST_VALUE].decode(errors="replace")
        raise location.error(f"{' '.join(start.split())}: {EXPECTED}") from error
    except UnicodeDecodeError as error:
        raise location.error(f"{error.reason}: expected text encoded as UTF-8") from error
    except msgspec.DecodeError as error:
        raise location.error(f"{error}: {EXPECTED}") from error


def _text(field: str, value: Any, default: str | None, location: Location) -> str:
    if value is None:
        return default or ""
    if not isinstance(value, str):
        raise location.error(InvalidValue(field, "expected text", value))
    return value


def _is_list(kind: str, has_items: bool) -> bool:
    """Whether it is a list of objects. Some kinds are merely called so, such as an `AllowList`."""
    if has_items:
        return not kind or kind.endswith("List")
    return kind == "List" or (kind.endswith("List") and kind.removesuffix("List") in KIND_BY_NAME)


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
