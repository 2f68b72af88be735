"""Handle filter and prioritize for 500 and for 5,000 node names, in memory and without HTTP.

What is left is what the extender itself does: decode the names, find their rows, decide, and write
names or scores. The tables hold 5,000 nodes and 150,000 pods. Each filter request has the names in
another order; a prioritize request has those that have just passed the filter.
"""

import time
import tracemalloc
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any

import msgspec

from benchmarks.extender import LISTS, SAMPLE, Passed, request_body, shuffled
from benchmarks.figures import Figure, report
from rescheduler.extender.handlers import ExtenderHandlers
from rescheduler.extender.scheduling_request import scheduling_request
from rescheduler.extender.waiting_migrations import WaitingMigrations
from rescheduler.kube.event_recorder import EventRecorder
from rescheduler.kube.live_store import LiveStore
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.kinds import KIND_BY_NAME
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Policy
from testcluster.builders import pod
from testcluster.large import generate_large_cluster

NODES, PODS = 5_000, 150_000
WARM_UP, REQUESTS = 20, 300
NO_SERVER: Any = None


def main() -> None:
    tables = ClusterTables()
    for item in generate_large_cluster(NODES, PODS):
        kind = KIND_BY_NAME[item["kind"]]
        tables.of(kind).put(msgspec.convert(item, kind.type))
    recorder = EventRecorder(NO_SERVER)
    watching = MigrationWatches(NO_SERVER, LiveStore(NO_SERVER, tables), tables)
    migrations = WaitingMigrations(tables, watching, lambda pod, migration: None)
    extender = ExtenderHandlers(NO_SERVER, tables, Policy(), migrations, recorder)
    names = list(tables.nodes.row_of)
    report([*figures(extender, names[:SAMPLE]), *figures(extender, names)])


def figures(extender: ExtenderHandlers, names: list[str]) -> list[Figure]:
    """CPU time of both requests about these names, and the memory that both take at most."""
    requests = Requests(extender, names)
    for _ in range(WARM_UP):
        requests.send_both()
    seconds = [requests.send_both() for _ in range(REQUESTS)]
    filter_seconds, prioritize_seconds = map(median, zip(*seconds, strict=True))
    subject = f"{len(names):,} node names"
    return [
        Figure(f"filter {subject}: CPU time", filter_seconds * 1e3, "ms"),
        Figure(f"prioritize {subject}: CPU time", prioritize_seconds * 1e3, "ms"),
        Figure(f"filter and prioritize {subject}: memory", megabytes(requests.send_both), "MB"),
    ]


class Requests:
    """Requests about one pod after another, each with the nodes in another order."""

    def __init__(self, extender: ExtenderHandlers, names: list[str]) -> None:
        self._extender = extender
        self._lists = [msgspec.json.encode(shuffled(names, number)) for number in range(LISTS)]
        self._numbers = count()

    def send_both(self) -> tuple[float, float]:
        """The CPU seconds of a filter request, and of the prioritize request that follows it."""
        number = next(self._numbers)
        new = msgspec.json.encode(pod(f"shop/new-{number}", cpu="100m", memory="256Mi"))
        body = request_body(new, self._lists[number % LISTS])
        filter_seconds, response = timed(self._filter, body)
        passed = bytes(msgspec.json.decode(response, type=Passed).NodeNames)
        prioritize_seconds, _ = timed(self._prioritize, request_body(new, passed))
        return filter_seconds, prioritize_seconds

    def _filter(self, body: bytes) -> bytes:
        request = scheduling_request(body, self._extender.most_nodes)
        return self._extender.filter(request).encoded()

    def _prioritize(self, body: bytes) -> bytes:
        request = scheduling_request(body, self._extender.most_nodes)
        return self._extender.prioritize(request).encoded()


def timed(handle: Callable[[bytes], bytes], body: bytes) -> tuple[float, bytes]:
    """The CPU seconds that a response takes, and the response."""
    start = time.process_time()
    response = handle(body)
    return time.process_time() - start, response


def megabytes(action: Callable[[], object]) -> float:
    """The memory that an action takes at most, beyond what was in use before."""
    tracemalloc.start()
    action()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


if __name__ == "__main__":
    main()
