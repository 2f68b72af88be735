"""Decode what the server sends of a kind. An object that cannot be decoded costs no other object.

It is returned as an `UnreadableObject`, and whoever reads the kind decides whether to go on.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from rescheduler.files.conversion import converted
from rescheduler.files.invalid_value import BadValue
from rescheduler.kube.watch_events import Unreadable, WatchEvent, decoder_of, event_decoder_of
from rescheduler.model.json_decoder import without_nulls
from rescheduler.model.kinds import Kind
from rescheduler.model.unreadable_objects import UnreadableObject

T = TypeVar("T")


def decoded_objects(raw: Iterable[msgspec.Raw], kind: Kind[T]) -> Iterator[T | UnreadableObject]:
    """The objects of a page, one after the other."""
    decode = decoder_of(kind.type).decode
    for item in raw:
        try:
            obj: T | UnreadableObject = decode(item)
        except msgspec.ValidationError as error:
            obj = unreadable_object(msgspec.json.decode(item), kind, error)
        yield obj


def decoded_event(line: bytes, kind: Kind[T]) -> WatchEvent[T]:
    """One event of a watch."""
    try:
        return event_decoder_of(kind.type).decode(line)
    except msgspec.ValidationError as error:
        content = msgspec.json.decode(line)
        event = content.get("type") if isinstance(content, dict) else None
        if event not in ("ADDED", "MODIFIED", "DELETED"):
            raise
        obj = unreadable_object(content.get("object"), kind, error)
        return Unreadable(obj, is_deleted=event == "DELETED")


def unreadable_object(
    content: Any, kind: Kind[Any], error: msgspec.ValidationError
) -> UnreadableObject:
    """What is known of an object that was refused with this error; raises it if it has no name."""
    metadata = _part(content, "metadata")
    name, namespace = _text(metadata, "name"), _text(metadata, "namespace")
    node = _part(content, "spec").get("nodeName") or ""
    if not name:
        raise error
    return UnreadableObject(
        kind=kind.name,
        name=name,
        namespace=namespace if kind.namespaced else "",
        uid=_text(metadata, "uid"),
        resource_version=_text(metadata, "resourceVersion"),
        node=node if isinstance(node, str) else None,
        problem=problem_with(content, kind.type, error),
    )


def problem_with(content: Any, type: Any, error: msgspec.ValidationError) -> str:
    """The field that was refused, its value, and what was expected."""
    try:
        converted(without_nulls(content), type)
    except BadValue as bad:
        # Without a path the whole value was refused, and the decoder says better why.
        return str(bad) if bad.problem.path else str(error)
    return str(error)


def _part(content: Any, key: str) -> dict[str, Any]:
    part = content.get(key) if isinstance(content, dict) else None
    return part if isinstance(part, dict) else {}


def _text(metadata: dict[str, Any], key: str) -> str:
    value = metadata.get(key)
    return value if isinstance(value, str) else ""
