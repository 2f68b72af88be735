"""The Kubernetes objects in a file, found but not decoded: lists are opened, kinds are known.

A file is a `List` of objects, or the list of one kind, or single objects; JSON, or YAML with any
number of documents; packed with gzip or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from rescheduler.errors import SnapshotError
from rescheduler.files.conversion import converted
from rescheduler.files.documents import is_json, unpacked, without_byte_order_mark, yaml_documents
from rescheduler.files.invalid_value import LONGEST_VALUE, InvalidValue
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
        yield from _objects(msgspec.Raw(without_byte_order_mark(data)), file, _Head())
        return
    documents = yaml_documents(data)
    if not documents:
        raise file.error(f"empty: {EXPECTED}")
    for number, content in enumerate(documents, start=1):
        location = file / f"document {number}" if len(documents) > 1 else file
        yield from _objects(content, location, _Head())


class _Head(msgspec.Struct, rename="camel"):
    """What decides how the rest is read."""

    api_version: Any = None
    kind: Any = None
    items: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Json:
    """An object that is still JSON."""

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
        try:
            content = msgspec.json.decode(bytes(self._raw).decode(errors="replace"))
        except msgspec.DecodeError:
            return {}
        return _without_nulls(content)

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


def _objects(content: Any, location: Location, default: _Head) -> Iterator[ObjectDocument]:
    """The object in a document, or those in the list that it is.

    `default` is what a list of one kind says about its items, which need not repeat it.
    """
    document = _document(content, location)
    api_version = _text("apiVersion", document.head.api_version, default.api_version, location)
    kind = _text("kind", document.head.kind, default.kind, location)
    if _is_list(kind, document.has_items):
        item_kind = kind.removesuffix("List")
        default = _Head(api_version, item_kind) if item_kind else _Head()
        yield from _items(document, location, default)
        return
    if not kind or not api_version:
        missing = "apiVersion" if kind else "kind"
        raise location.error(InvalidValue(missing, "missing: expected a Kubernetes object"))
    yield ObjectDocument(api_version, kind, location, document)


def _items(document: _Json | _Yaml, location: Location, default: _Head) -> Iterator[ObjectDocument]:
    if not document.has_items:
        raise location.error(InvalidValue("items", "missing: expected a list of objects"))
    items = document.items()
    if items is None:
        return  # as Go writes an empty list
    if not isinstance(items, list):
        raise location.error(InvalidValue("items", "expected a list of objects", items))
    for index, item in enumerate(items):
        yield from _objects(item, location / f"items[{index}]", default)


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


def _without_nulls(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _without_nulls(value) for key, value in content.items() if value is not None}
    if isinstance(content, list):
        return [_without_nulls(value) for value in content]
    return content
