"""The interface of an API server, implemented in memory.

A request that is not supported is refused: ignoring parts of it would give wrong results.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from rescheduler.errors import NotFound
from rescheduler.kube.api_server import PAGE_SIZE, Answer, ListPage, Patch
from rescheduler.kube.server_features import VERSION_PATH
from rescheduler.kube.watch_events import (
    Added,
    Bookmark,
    BookmarkObject,
    Deleted,
    Modified,
    VersionOnly,
    WatchEvent,
)
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import LabelSelector
from rescheduler.model.selectors import BadSelector, parse_selector
from rescheduler.simulation.cluster import evictions, status_errors
from rescheduler.simulation.cluster.json_objects import Json, matches_labels
from rescheduler.simulation.cluster.merge_patch import merged, strategically_merged
from rescheduler.simulation.cluster.object_store import ObjectChange
from rescheduler.simulation.cluster.registry import Registry, Update
from rescheduler.simulation.cluster.resources import BY_PATH, Resource, resource_named

T = TypeVar("T")

PATCHES: dict[Patch, Callable[[Json, Json], Json]] = {
    Patch.MERGE: merged,
    Patch.STRATEGIC: strategically_merged,
}
# The version whose scheduler is simulated.
SIMULATED_VERSION = "v1.37.0"
# The interval of bookmarks of a real server.
BOOKMARK_SECONDS = 60.0
# The only field that lists can be narrowed down by: of pods, their node.
ON_NODE = "spec.nodeName"


class RequestPath(NamedTuple):
    """The path of a request, in its parts."""

    resource: Resource
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@lru_cache(maxsize=10_000)
def parse_path(path: str) -> RequestPath:
    """The parts of a path; `NotFound` if the simulated cluster has no such resource."""
    parts = path.strip("/").split("/")
    head = 2 if parts[0] == "api" else 3
    version, rest = "/".join(parts[1:head]), parts[head:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        _, namespace, *rest = rest
    resource = BY_PATH.get((version, rest[0])) if rest else None
    if resource is None or len(rest) > 3:
        raise NotFound(path, "404 Not Found: the simulated cluster has no such resource")
    name, subresource = (*rest[1:], "", "")[:2]
    return RequestPath(resource, namespace, name, subresource)


@lru_cache(maxsize=1000)
def parsed_selector(selector: str) -> LabelSelector:
    """A label selector from its text."""
    return parse_selector(selector)


class SimulatedApiServer:
    """An `ApiServer` for the objects of a registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store

    # ------------------------------------------------------------ lists and watches

    async def list_pages(
        self, kind: Kind[T], limit: int = PAGE_SIZE
    ) -> AsyncGenerator[ListPage[T], None]:
        """See `ApiServer.list_pages`."""
        await asyncio.sleep(0)
        version = str(self._store.version)
        objects = self._store.all(resource_named(kind.name).name)
        selector = parsed_selector(kind.selector)
        values = [objects[key] for key in sorted(objects)]
        values = [value for value in values if matches_labels(selector, value)]
        for start in range(0, max(len(values), 1), limit):
            page = values[start : start + limit]
            yield ListPage(version, len(page), structs(page, kind.type))
            await asyncio.sleep(0)

    async def watch(
        self,
        kind: Kind[T],
        resource_version: str,
        timeout_seconds: int,
        batch_seconds: float = 0.0,
    ) -> AsyncGenerator[Sequence[WatchEvent[T]], None]:
        """See `ApiServer.watch`. Nothing is held back."""
        await asyncio.sleep(0)
        missed = self._store.since(kind.name, int(resource_version))
        if missed is None:
            raise status_errors.gone(f"WATCH {kind.path}", int(resource_version))
        watcher = Watcher(kind)
        for change in missed:
            watcher.add(change)
        self._store.listen(kind.name, watcher.add)
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_seconds
        try:
            yield ()
            while loop.time() < ends:
                events = await watcher.events(min(BOOKMARK_SECONDS, ends - loop.time()))
                yield events or [bookmark(self._store.version)]
        finally:
            self._store.stop_listening(kind.name, watcher.add)

    # ------------------------------------------------------------ single objects

    async def get(self, path: str, type: type[T], query: dict[str, str] | None = None) -> T:
        """See `ApiServer.get`."""
        await asyncio.sleep(0)
        if path == VERSION_PATH:
            return as_type({"gitVersion": SIMULATED_VERSION}, type)
        request = parse_path(path)
        if request.subresource:
            raise status_errors.bad_request(f"GET {path}", "subresources cannot be read")
        if not request.name:
            return as_type(self._list(request, query or {}), type)
        return as_type(self._registry.read(request.resource.name, request.key, f"GET {path}"), type)

    def _list(self, request: RequestPath, query: dict[str, str]) -> Json:
        call = f"GET {request.resource.plural}"
        # All objects come in one page, whatever the limit: they are in memory already.
        if not set(query) <= {"labelSelector", "fieldSelector", "limit"}:
            text = f"{query}: expected labelSelector, fieldSelector or limit"
            raise status_errors.bad_request(call, text)
        field, _, node = query.get("fieldSelector", "").partition("=")
        if field not in ("", ON_NODE):
            raise status_errors.bad_request(call, f"{field}: expected {ON_NODE}")
        try:
            selector = parsed_selector(query.get("labelSelector", ""))
        except BadSelector as error:
            raise status_errors.bad_request(call, str(error)) from error
        kind = request.resource.name
        if kind == "Pod" and request.namespace:
            found = self._registry.indexes.selected_pods(request.namespace, selector)
        else:
            found = [
                value
                for value in self._store.all(kind).values()
                if request.namespace in ("", value["metadata"].get("namespace"))
                and matches_labels(selector, value)
            ]
        if field:
            found = [value for value in found if value["spec"].get("nodeName") == node]
        found.sort(
            key=lambda value: (value["metadata"].get("namespace"), value["metadata"]["name"])
        )
        return {"metadata": {"resourceVersion": str(self._store.version)}, "items": found}

    async def create(self, path: str, body: Any) -> Answer:
        """See `ApiServer.create`."""
        await asyncio.sleep(0)
        request = parse_path(path)
        if request.name:
            raise status_errors.bad_request(f"POST {path}", "expected the path of a collection")
        value = json_value(body)
        created = self._registry.create(request.resource, request.namespace, value)
        return answer(created, 201)

    async def patch(
        self, path: str, body: Any, how: Patch = Patch.MERGE, *, force: bool = False
    ) -> Answer:
        """See `ApiServer.patch`. There is no server-side apply."""
        await asyncio.sleep(0)
        call = f"PATCH {path}"
        if how not in PATCHES or force:
            raise status_errors.refusal(call, 415, "UnsupportedMediaType", f"{how}: not supported")
        patch = json_value(body)
        return self._update(path, lambda old: PATCHES[how](old, patch), call)

    def _update(self, path: str, change: Update, call: str) -> Answer:
        request = parse_path(path)
        if request.subresource not in ("", "status"):
            raise status_errors.bad_request(call, f"{request.subresource} cannot be written")
        if request.subresource and not request.resource.has_status:
            raise status_errors.not_found(call, f"{path}")
        updated = self._registry.update(
            request.resource, request.key, change, subresource=request.subresource, call=call
        )
        return answer(updated)

    async def delete(
        self, path: str, *, uid: str = "", version: str = "", grace_seconds: int | None = None
    ) -> Answer:
        """See `ApiServer.delete`."""
        await asyncio.sleep(0)
        request = parse_path(path)
        deleted = self._registry.delete(
            request.resource, request.key, uid=uid, version=version, grace_seconds=grace_seconds
        )
        return answer(deleted)

    async def evict(
        self,
        pod: str,
        *,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """See `ApiServer.evict`."""
        await asyncio.sleep(0)
        evictions.evict(
            self._registry,
            pod,
            uid=uid,
            version=version,
            grace_seconds=grace_seconds,
            dry_run=dry_run,
        )

    async def bind(self, pod: str, node: str, *, uid: str = "") -> None:
        """See `ApiServer.bind`."""
        await asyncio.sleep(0)
        self._registry.bind(pod, node, uid=uid)


class Watcher:
    """Collects the events of one watch until they are read."""

    def __init__(self, kind: Kind[Any]) -> None:
        self._type = kind.type
        self._selector = parsed_selector(kind.selector) if kind.selector else None
        self._events: deque[WatchEvent[Any]] = deque()
        self._arrival: asyncio.Future[None] | None = None

    def add(self, change: ObjectChange) -> None:
        """Queue the event of a change, if the watch selects the object."""
        event = self._event(change)
        if event is None:
            return
        self._events.append(event)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _event(self, change: ObjectChange) -> WatchEvent[Any] | None:
        was_selected, is_selected = self._selects(change.old), self._selects(change.new)
        if is_selected:
            event = Modified if was_selected else Added
            return event(change.struct(self._type))
        if not was_selected:
            return None
        if change.new is None:
            return Deleted(change.struct(self._type))
        # The object exists, but its labels no longer match: for this watch it is deleted.
        return Deleted(msgspec.convert(change.last(), self._type))

    def _selects(self, value: Json | None) -> bool:
        if value is None:
            return False
        return self._selector is None or matches_labels(self._selector, value)

    async def events(self, seconds: float) -> list[WatchEvent[Any]]:
        """All queued events; if there are none, waits for one for so many seconds."""
        if not self._events:
            loop = asyncio.get_running_loop()
            self._arrival = loop.create_future()
            timer = loop.call_later(seconds, wake, self._arrival)
            try:
                await self._arrival
            finally:
                timer.cancel()
        events = list(self._events)
        self._events.clear()
        return events


def wake(future: "asyncio.Future[None]") -> None:
    """Resolve the future, unless it is already."""
    if not future.done():
        future.set_result(None)


def structs(values: list[Json], type: type[T]) -> Iterator[T]:
    """Values as structs, decoded one at a time."""
    return (msgspec.convert(value, type) for value in values)


def as_type(value: Json, type: type[T]) -> T:
    """A value as a struct, or as raw JSON."""
    requested: Any = type
    if requested is msgspec.Raw:
        raw: Any = msgspec.Raw(msgspec.json.encode(value))
        return raw  # type: ignore[no-any-return]
    return msgspec.convert(value, type)


def json_value(body: Any) -> Any:
    """A body as the JSON value that a server would decode; a copy, shared with nobody."""
    return msgspec.json.decode(msgspec.json.encode(body))


def answer(value: Json, status: int = 200) -> Answer:
    """The response to a write."""
    return Answer(status, msgspec.json.encode(value))


def bookmark(version: int) -> Bookmark:
    """Says that the watch has sent all changes up to this version."""
    return Bookmark(BookmarkObject(VersionOnly(str(version))))
