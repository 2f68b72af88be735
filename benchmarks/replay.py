"""A local server that answers list requests with pages of a generated cluster.

It stands in for an API server where only the client is measured: a real one with 150,000 pods
takes minutes to fill. It runs in a process of its own.
"""

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from aiohttp import web

from benchmarks.clusters import mind_neighbours
from rescheduler.model.kinds import KINDS
from testcluster.client import JsonObject
from testcluster.large import generate_large_cluster

Encoded = dict[str, list[bytes]]
Handler = Callable[[web.Request], Awaitable[web.Response]]

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


def application(objects: Encoded) -> web.Application:
    """Lists for every kind that is read; a kind of which there are no objects is empty."""
    app = web.Application()
    for kind in KINDS:
        app.router.add_get(kind.path, pages_of(objects.get(kind.name, [])))
    app.router.add_get("/changes", changes_of(objects["Pod"]))
    return app


def changes_of(pods: list[bytes]) -> Handler:
    """Watch lines for some of the pods, each a version newer than any list."""

    async def changes(request: web.Request) -> web.Response:
        lines = []
        for number, body in enumerate(pods[:: len(pods) // CHANGES]):
            pod = msgspec.json.decode(body)
            pod["metadata"]["resourceVersion"] = str(LIST_VERSION + number + 1)
            lines.append(msgspec.json.encode({"type": "MODIFIED", "object": pod}))
        return web.Response(body=b"\n".join(lines))

    return changes


def pages_of(items: list[bytes]) -> Handler:
    """The list of these objects, in pages of the size that is asked for."""

    async def page(request: web.Request) -> web.Response:
        start = int(request.query.get("continue", "0"))
        end = start + int(request.query["limit"])
        following = f',"continue":"{end}"' if end < len(items) else ""
        head = f'{{"metadata":{{"resourceVersion":"{LIST_VERSION}"{following}}},"items":['
        body = head.encode() + b",".join(items[start:end]) + b"]}"
        return web.Response(body=body, content_type="application/json")

    return page


async def serve(objects: Encoded) -> None:
    runner = web.AppRunner(application(objects), access_log=None)
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
    wanted = parser.parse_args()
    objects = generate_large_cluster(wanted.nodes, wanted.pods)
    objects = mind_neighbours(objects) if wanted.with_rules else objects
    asyncio.run(serve(encoded_by_kind(objects)))


if __name__ == "__main__":
    main()
