"""The port, answered from memory.

What is asked for that is not understood is refused, so that nobody mistakes silence for an answer.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from rescheduler.errors import NotFound
from rescheduler.kube.api_server import PAGE_SIZE, Answer, ListPage, Patch
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
from rescheduler.simulation.cluster.merge_patch import (
    BadPatch,
    json_patched,
    merged,
    strategically_merged,
)
from rescheduler.simulation.cluster.object_store import ObjectChange
from rescheduler.simulation.cluster.registry import Registry
from rescheduler.simulation.cluster.resources import BY_PATH, Resource, resource_named

T = TypeVar("T")

# As often as a real server says that nothing has happened.
BOOKMARK_SECONDS = 60.0


class RequestPath(NamedTuple):
    """What a path means."""

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
    """What a path means; `NotFound` if the cluster in memory has no such thing."""
    parts = path.strip("/").split("/")
    head = 2 if parts[0] == "api" else 3
    version, rest = "/".join(parts[1:head]), parts[head:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        _, namespace, *rest = rest
    resource = BY_PATH.get((version, rest[0])) if rest else None
    if resource is None or len(rest) > 3:
        raise NotFound(path, "404 Not Found: the cluster in memory has no such resource")
    name, subresource = (*rest[1:], "", "")[:2]
    return RequestPath(resource, namespace, name, subresource)


@lru_cache(maxsize=1000)
def parsed_selector(selector: str) -> LabelSelector:
    """A selector from its text."""
    return parse_selector(selector)


class SimulatedApiServer:
    """An `ApiServer` that keeps everything in memory."""

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
        self, kind: Kind[T], resource_version: str, timeout_seconds: int
    ) -> AsyncGenerator[Sequence[WatchEvent[T]], None]:
        """See `ApiServer.watch`."""
        await asyncio.sleep(0)
        missed = self._store.since(kind.name, int(resource_version))
        if missed is None:
            raise status_errors.gone(f"WATCH {kind.path}", int(resource_version))
        watcher = Watcher(kind)
        for change in missed:
            watcher.take(change)
        self._store.listen(kind.name, watcher.take)
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_seconds
        try:
            yield ()
            while loop.time() < ends:
                events = await watcher.events(min(BOOKMARK_SECONDS, ends - loop.time()))
                yield events or [bookmark(self._store.version)]
        finally:
            self._store.stop_listening(kind.name, watcher.take)

    # ------------------------------------------------------------ single objects

    async def get(self, path: str, type: type[T], query: dict[str, str] | None = None) -> T:
        """See `ApiServer.get`."""
        await asyncio.sleep(0)
        place = parse_path(path)
        if place.subresource:
            raise status_errors.bad_request(f"GET {path}", "subresources cannot be read")
        if not place.name:
            return as_type(self._list(place, query or {}), type)
        return as_type(self._registry.read(place.resource.name, place.key, f"GET {path}"), type)

    def _list(self, place: RequestPath, query: dict[str, str]) -> Json:
        call = f"GET {place.resource.plural}"
        if not set(query) <= {"labelSelector"}:
            raise status_errors.bad_request(call, f"{query}: expected no query but labelSelector")
        try:
            selector = parsed_selector(query.get("labelSelector", ""))
        except BadSelector as error:
            raise status_errors.bad_request(call, str(error)) from error
        kind = place.resource.name
        if kind == "Pod" and place.namespace:
            found = self._registry.indexes.selected_pods(place.namespace, selector)
        else:
            found = [
                value
                for value in self._store.all(kind).values()
                if place.namespace in ("", value["metadata"].get("namespace"))
                and matches_labels(selector, value)
            ]
        found.sort(
            key=lambda value: (value["metadata"].get("namespace"), value["metadata"]["name"])
        )
        return {"metadata": {"resourceVersion": str(self._store.version)}, "items": found}

    async def create(self, path: str, body: Any, *, dry_run: bool = False) -> Answer:
        """See `ApiServer.create`."""
        await asyncio.sleep(0)
        place = parse_path(path)
        if place.name:
            raise status_errors.bad_request(f"POST {path}", "expected the path of a collection")
        value = json_value(body)
        made = self._registry.create(place.resource, place.namespace, value, dry_run=dry_run)
        return answer(made, 201)

    async def replace(self, path: str, body: Any, *, dry_run: bool = False) -> Answer:
        """See `ApiServer.replace`."""
        await asyncio.sleep(0)
        value = json_value(body)
        if not value.get("metadata", {}).get("resourceVersion"):
            raise status_errors.invalid(
                f"PUT {path}", path, "metadata.resourceVersion: must be specified for an update"
            )
        return self._update(path, lambda old: value, f"PUT {path}", dry_run)

    async def patch(
        self,
        path: str,
        body: Any,
        how: Patch = Patch.MERGE,
        *,
        dry_run: bool = False,
        force: bool = False,
    ) -> Answer:
        """See `ApiServer.patch`. There is no server-side apply."""
        await asyncio.sleep(0)
        call = f"PATCH {path}"
        patch = json_value(body)
        apply = {
            Patch.MERGE: merged,
            Patch.STRATEGIC: strategically_merged,
            Patch.JSON: json_patched,
        }.get(how)
        if apply is None or force:
            raise status_errors.refusal(
                call, 415, "UnsupportedMediaType", f"{how} is not understood"
            )
        try:
            return self._update(path, lambda old: apply(old, patch), call, dry_run)
        except BadPatch as problem:
            raise status_errors.invalid(call, path, str(problem)) from problem

    def _update(self, path: str, change: Any, call: str, dry_run: bool) -> Answer:
        place = parse_path(path)
        if place.subresource not in ("", "status"):
            raise status_errors.bad_request(call, f"{place.subresource} cannot be written")
        if place.subresource and not place.resource.has_status:
            raise status_errors.not_found(call, f"{path}")
        made = self._registry.update(
            place.resource,
            place.key,
            change,
            subresource=place.subresource,
            dry_run=dry_run,
            call=call,
        )
        return answer(made)

    async def delete(
        self,
        path: str,
        *,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> Answer:
        """See `ApiServer.delete`."""
        await asyncio.sleep(0)
        place = parse_path(path)
        made = self._registry.delete(
            place.resource,
            place.key,
            uid=uid,
            version=version,
            grace_seconds=grace_seconds,
            dry_run=dry_run,
        )
        return answer(made)

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
    """Collects what a watch has to tell, until it is asked for."""

    def __init__(self, kind: Kind[Any]) -> None:
        self._type = kind.type
        self._selector = parsed_selector(kind.selector) if kind.selector else None
        self._waiting: deque[WatchEvent[Any]] = deque()
        self._news: asyncio.Future[None] | None = None

    def take(self, change: ObjectChange) -> None:
        """Remember a change, if it is of interest."""
        event = self._event(change)
        if event is None:
            return
        self._waiting.append(event)
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _event(self, change: ObjectChange) -> WatchEvent[Any] | None:
        had, has = self._is_meant(change.old), self._is_meant(change.new)
        if has:
            made = Modified if had else Added
            return made(change.struct(self._type))
        if not had:
            return None
        if change.new is None:
            return Deleted(change.struct(self._type))
        # It is still there, but no longer what this watch is about.
        return Deleted(msgspec.convert(change.last(), self._type))

    def _is_meant(self, value: Json | None) -> bool:
        if value is None:
            return False
        return self._selector is None or matches_labels(self._selector, value)

    async def events(self, seconds: float) -> list[WatchEvent[Any]]:
        """All that has happened, or nothing if nothing happens for so long."""
        if not self._waiting:
            loop = asyncio.get_running_loop()
            self._news = loop.create_future()
            timer = loop.call_later(seconds, wake, self._news)
            try:
                await self._news
            finally:
                timer.cancel()
        events = list(self._waiting)
        self._waiting.clear()
        return events


def wake(future: "asyncio.Future[None]") -> None:
    """Let whoever waits go on."""
    if not future.done():
        future.set_result(None)


def structs(values: list[Json], type: type[T]) -> Iterator[T]:
    """Values as structs, one at a time."""
    return (msgspec.convert(value, type) for value in values)


def as_type(value: Json, type: type[T]) -> T:
    """A value as whoever asks wants it."""
    wanted: Any = type
    if wanted is msgspec.Raw:
        raw: Any = msgspec.Raw(msgspec.json.encode(value))
        return raw  # type: ignore[no-any-return]
    return msgspec.convert(value, type)


def json_value(body: Any) -> Any:
    """A body as the JSON value that the server would read, which nobody else has."""
    return msgspec.json.decode(msgspec.json.encode(body))


def answer(value: Json, status: int = 200) -> Answer:
    """What is said to a write."""
    return Answer(status, msgspec.json.encode(value))


def bookmark(version: int) -> Bookmark:
    """Nothing has happened up to this version."""
    return Bookmark(BookmarkObject(VersionOnly(str(version))))
