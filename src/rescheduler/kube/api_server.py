"""The interface to an API server: what the rest of the program may ask of one.

`Client` implements it for a real server, the simulation for a cluster in memory. Both keep the
promises below, so everything above this interface runs unchanged in a simulation.

Errors are those of `rescheduler.errors`. A write that raises `OutcomeUnknown` may have happened;
one that raises anything else has not.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from rescheduler.errors import NotFound, Unavailable
from rescheduler.kube.watch_events import WatchEvent, decoder_of
from rescheduler.model.kinds import Kind
from rescheduler.model.names import is_object_name
from rescheduler.model.unreadable_objects import UnreadableObject

T = TypeVar("T")

PAGE_SIZE = 500

# Enough of a text that is no name to recognise it.
SHOWN_CHARACTERS = 100


class Patch(StrEnum):
    """The type of a patch. The values are media types."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    """Lists such as conditions are merged by their keys."""
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's response to a write: JSON, which is only decoded on demand."""

    status: int
    body: bytes

    def decode(self, type: type[T]) -> T:
        """The object in the answer, as far as `type` names its fields."""
        return decoder_of(type).decode(self.body)


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """One page of a list, and the version that the whole list shows.

    Its objects are decoded one at a time, as they are taken: all of a page's objects together
    are more than a processor's cache holds, and putting them away would take half as long again.
    """

    resource_version: str
    count: int
    objects: Iterator[T | UnreadableObject]

    def readable(self) -> Iterator[T]:
        """The objects, for those who need all of them: raises at one that cannot be decoded."""
        for obj in self.objects:
            if isinstance(obj, UnreadableObject):
                raise Unavailable("LIST", f"cannot be decoded: {obj}")
            yield obj


def object_path(kind: Kind[Any], key: str, subresource: str = "") -> str:
    """The path of one object, named by `namespace/name` or by name.

    `NotFound` if no object can have that name. Names also come from annotations and owner
    references: without this check, whoever writes one could choose the path that we request.
    """
    namespace, _, name = key.partition("/") if kind.namespaced else ("", "", key)
    check_names(kind, [namespace, name] if kind.namespaced else [name])
    path = kind.object_path(namespace, name)
    return f"{path}/{subresource}" if subresource else path


def collection_path(kind: Kind[Any], namespace: str = "") -> str:
    """Where objects of `kind` are created: in a namespace, if they live in one.

    `NotFound` if no namespace can have that name.
    """
    check_names(kind, [namespace] if kind.namespaced else [])
    return kind.object_path(namespace, "").rstrip("/")


def check_names(kind: Kind[Any], names: Sequence[str]) -> None:
    """Raise `NotFound` if no object can have one of these names."""
    for name in names:
        if not is_object_name(name):
            shown = repr(name if len(name) <= SHOWN_CHARACTERS else f"{name[:SHOWN_CHARACTERS]}...")
            raise NotFound(f"{kind.name} {shown}", "this can be no object's name")


class ApiServer(Protocol):
    """What can be asked of an API server, real or simulated.

    Paths are those of the HTTP API; `object_path` and `collection_path` build them. A body is
    anything msgspec can encode as JSON.
    """

    def list_pages(
        self, kind: Kind[T], limit: int = PAGE_SIZE
    ) -> AsyncGenerator[ListPage[T], None]:
        """All objects of a kind, in pages that show the same moment.

        `Gone` means that the server forgot that moment before the last page: start again.
        """
        ...

    def watch(
        self,
        kind: Kind[T],
        resource_version: str,
        timeout_seconds: int,
        batch_seconds: float = 0.0,
    ) -> AsyncGenerator[Sequence[WatchEvent[T]], None]:
        """Every change after `resource_version`, in order, in batches as they arrive.

        Where changes come often, they may be held back for `batch_seconds`, to come together.

        The first batch is empty: it says that the server has accepted the watch. Ends when
        `timeout_seconds` are over, after long silence, or when the server wants it to end.
        `Gone` means that it no longer knows what followed that version.
        """
        ...

    async def get(self, path: str, type: type[T], query: dict[str, str] | None = None) -> T:
        """One object, or whatever else is at `path`; a `query` narrows a list down."""
        ...

    async def create(self, path: str, body: Any) -> Answer:
        """Create an object in the collection at `path`. `AlreadyExists` if it is there."""
        ...

    async def patch(
        self, path: str, body: Any, how: Patch = Patch.MERGE, *, force: bool = False
    ) -> Answer:
        """Change parts of an object. `force` takes over fields that others apply.

        A body that names a `resourceVersion` is a `Conflict` unless the object still has it.
        """
        ...

    async def delete(
        self, path: str, *, uid: str = "", version: str = "", grace_seconds: int | None = None
    ) -> Answer:
        """Delete an object.

        With a `uid`, only that very one, with a `version`, only if nobody has changed it since;
        otherwise it is a `Conflict`.
        """
        ...

    async def evict(
        self,
        pod: str,
        *,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for the pod `namespace/name` to be evicted.

        `EvictionRefused` if its disruption budgets do not allow it. A dry run answers whether
        they would. With a `uid` or a `version`, only that very pod as it was seen; but its budget
        is charged before that is looked at, and forgets it only after two minutes.
        """
        ...

    async def bind(self, pod: str, node: str, *, uid: str = "") -> None:
        """Place the pod `namespace/name` on a node, as a scheduler does."""
        ...
