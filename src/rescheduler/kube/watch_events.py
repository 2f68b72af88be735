"""Watch events, and how they are decoded from the bytes of a watch.

An event is decoded in one pass: its `type` picks the struct, so the object inside is never
decoded twice nor built as dicts.
"""

from collections.abc import AsyncIterable, AsyncIterator
from functools import cache
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from rescheduler.model.json_decoder import JsonDecoder
from rescheduler.model.unreadable_objects import UnreadableObject

T = TypeVar("T")


class Cause(msgspec.Struct, frozen=True):
    """One reason in the details of a refusal."""

    reason: str = ""


class Details(msgspec.Struct, frozen=True):
    """What the server adds to a refusal."""

    causes: tuple[Cause, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """The server's answer when it is not the object that was asked for."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None

    def has_cause(self, reason: str) -> bool:
        """Whether the details give this reason."""
        causes = self.details.causes if self.details else ()
        return any(cause.reason == reason for cause in causes)


class Added(msgspec.Struct, Generic[T], frozen=True, gc=False, tag="ADDED", tag_field="type"):
    """An object is new to the watch."""

    object: T


class Modified(msgspec.Struct, Generic[T], frozen=True, gc=False, tag="MODIFIED", tag_field="type"):
    """An object changed."""

    object: T


class Deleted(msgspec.Struct, Generic[T], frozen=True, gc=False, tag="DELETED", tag_field="type"):
    """An object is gone: its last state, at the version of its deletion."""

    object: T


class VersionOnly(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of a bookmark's object."""

    resource_version: str


class BookmarkObject(msgspec.Struct, frozen=True):
    """An object that is nothing but a version."""

    metadata: VersionOnly


class Bookmark(msgspec.Struct, frozen=True, tag="BOOKMARK", tag_field="type"):
    """Nothing changed up to this version."""

    object: BookmarkObject


class Failed(msgspec.Struct, frozen=True, tag="ERROR", tag_field="type"):
    """The watch cannot go on."""

    object: Status


class Unreadable(msgspec.Struct, frozen=True):
    """Something happened to an object that cannot be decoded. No event of the server's own."""

    object: UnreadableObject
    is_deleted: bool = False


WatchEvent: TypeAlias = Added[T] | Modified[T] | Deleted[T] | Bookmark | Failed | Unreadable


def decoder_of(type: type[T]) -> JsonDecoder[T]:
    """The decoder for a type. Each is built once: building one costs more than using it."""
    wanted: Any = type
    return _cached_decoder(wanted)


def event_decoder_of(type: type[T]) -> JsonDecoder[WatchEvent[T]]:
    """The decoder for watch events about objects of a type."""
    wanted: Any = type
    return _cached_event_decoder(wanted)


@cache
def _cached_decoder(type: Any) -> JsonDecoder[Any]:
    """`decoder_of`, for which a cache cannot express the types."""
    return JsonDecoder(type)


@cache
def _cached_event_decoder(type: Any) -> JsonDecoder[Any]:
    """`event_decoder_of`, likewise."""
    events: Any = Added[type] | Modified[type] | Deleted[type] | Bookmark | Failed
    return JsonDecoder(events)


async def whole_lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[list[bytes]]:
    """The lines that each chunk completes; a line may be of any length and span many chunks.

    What follows the last newline is dropped when the chunks end: it was cut off.
    """
    unfinished: list[bytes] = []
    async for chunk in chunks:
        head, *rest = chunk.split(b"\n")
        unfinished.append(head)
        if rest:
            lines = [b"".join(unfinished), *rest[:-1]]
            unfinished = [rest[-1]]
            yield [line for line in lines if line]
