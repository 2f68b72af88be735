"""A local server that answers list and watch requests with a generated cluster.

It replaces an API server where only the client is measured: a real one takes minutes to load with
150,000 pods. It runs in its own process.
"""

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import count

import msgspec
from aiohttp import web

from benchmarks.clusters import with_pod_rules
from rescheduler.migration.migration_object import MIGRATION, Phase, Step
from rescheduler.migration.migration_request import migration_body
from rescheduler.model.kinds import KINDS, POD
from rescheduler.model.moves import Mode
from testcluster.client import JsonObject
from testcluster.large import generate_large_cluster

Encoded = dict[str, list[bytes]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LIST_VERSION = 10**9
CHANGES = 5_000


def encoded_by_kind(objects: Iterable[JsonObject]) -> Encoded:
    """Objects as JSON, by kind and in the order in which an API server lists them."""
    by_kind: defaultdict[str, list[tuple[str, bytes]]] = defaultdict(list)
    for version, item in enumerate(objects, start=1):
        metadata = {**item["metadata"], "resourceVersion": str(version)}
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        by_kind[item["kind"]].append((key, msgspec.json.encode({**item, "metadata": metadata})))
    return {kind: [body for _, body in sorted(items)] for kind, items in by_kind.items()}


def application(objects: Encoded, changes_per_second: float) -> web.Application:
    """Lists for every kind that is read; a kind of which there are no objects is empty.

    While a watch of pods is open, pods are deleted and created at this rate; all else is constant.
    """
    app = web.Application()
    for kind in (*KINDS, MIGRATION):
        items = objects.get(kind.name, [])
        rate = changes_per_second if kind is POD else 0.0
        app.router.add_get(kind.path, list_or_watch(items, rate))
    app.router.add_get("/changes", changes_of(objects["Pod"]))
    return app


def list_or_watch(items: list[bytes], changes_per_second: float) -> Handler:
    """Answers a list or a watch. A label selector matches nothing."""
    listing, nothing = pages_of(items), pages_of([])
    watching, silence = watch_of(items, changes_per_second), watch_of([], 0.0)

    async def answer(request: web.Request) -> web.StreamResponse:
        selected = "labelSelector" in request.query
        if "watch" in request.query:
            return await (silence if selected else watching)(request)
        return await (nothing if selected else listing)(request)

    return answer


def watch_of(items: list[bytes], changes_per_second: float) -> Handler:
    """A watch of a kind whose objects are deleted and created again, one after the other."""

    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if not changes_per_second:
            await asyncio.Event().wait()
        for line in deletions_and_additions(items):
            await response.write(line + b"\n")
            await asyncio.sleep(1 / changes_per_second)
        return response

    return watch


def deletions_and_additions(items: list[bytes]) -> Iterator[bytes]:
    """Endless watch events."""
    version = count(LIST_VERSION + 1)
    while True:
        for body in items[:: max(len(items) // CHANGES, 1)]:
            item = msgspec.json.decode(body)
            for kind in ("DELETED", "ADDED"):
                item["metadata"]["resourceVersion"] = str(next(version))
                yield msgspec.json.encode({"type": kind, "object": item})


def with_migrations(objects: Iterable[JsonObject], migrations: int) -> Iterator[JsonObject]:
    """The same objects, and so many Migrations by eviction that wait for a replacement."""
    nodes: list[str] = []
    pods: list[JsonObject] = []
    for item in objects:
        yield item
        if item["kind"] == "Node":
            nodes.append(item["metadata"]["name"])
        elif item["kind"] == "Pod" and len(pods) < migrations:
            pods.append(item)
    for pod, target in zip(pods, nodes, strict=False):
        metadata = pod["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        migration = migration_body(key, metadata["uid"], target, mode=Mode.EVICT)
        migration["metadata"]["uid"] = f"migration of {metadata['uid']}"
        migration["status"] = {
            "phase": Phase.IN_PROGRESS,
            "mode": Mode.EVICT,
            "step": Step.EVICTING,
        }
        yield migration


def changes_of(pods: list[bytes]) -> Handler:
    """Watch events of some pods, with versions newer than any list."""

    async def changes(request: web.Request) -> web.Response:
        lines = []
        for number, body in enumerate(pods[:: len(pods) // CHANGES]):
            pod = msgspec.json.decode(body)
            pod["metadata"]["resourceVersion"] = str(LIST_VERSION + number + 1)
            lines.append(msgspec.json.encode({"type": "MODIFIED", "object": pod}))
        return web.Response(body=b"\n".join(lines))

    return changes


def pages_of(items: list[bytes]) -> Handler:
    """The list of these objects, in pages of the requested size."""

    async def page(request: web.Request) -> web.StreamResponse:
        start = int(request.query.get("continue", "0"))
        end = start + int(request.query["limit"])
        following = f',"continue":"{end}"' if end < len(items) else ""
        head = f'{{"metadata":{{"resourceVersion":"{LIST_VERSION}"{following}}},"items":['
        body = head.encode() + b",".join(items[start:end]) + b"]}"
        return web.Response(body=body, content_type="application/json")

    return page


async def serve(objects: Encoded, changes_per_second: float) -> None:
    runner = web.AppRunner(application(objects, changes_per_second), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--with-rules", action="store_true")
    parser.add_argument("--migrations", type=int, default=0)
    parser.add_argument("--changes-per-second", type=float, default=0.0)
    wanted = parser.parse_args()
    objects = generate_large_cluster(wanted.nodes, wanted.pods)
    objects = with_pod_rules(objects) if wanted.with_rules else objects
    objects = with_migrations(objects, wanted.migrations)
    asyncio.run(serve(encoded_by_kind(objects), wanted.changes_per_second))


if __name__ == "__main__":
    main()
