"""What the tests of this package share: a kind of their own, and someone who watches it."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rescheduler.kube.auth.authentication import ClientIdentity, fixed
from rescheduler.kube.auth.certificates import Trust
from rescheduler.kube.auth.credentials import Credentials
from rescheduler.kube.backoff import Backoff
from rescheduler.kube.client import ClientSettings
from rescheduler.kube.listwatch import ListWatch, WatchSettings
from rescheduler.kube.transport import Timeouts
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import ObjectMeta, Part
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.model.tables.table import TableChange
from testcluster.client import Client as OutsideClient
from testcluster.waiting import pause_before_asking_again


class ConfigMap(Part, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


# Nothing in the cluster reacts to config maps, and nobody else makes many of them.
CONFIG_MAP = Kind("ConfigMap", "v1", "configmaps", True, ConfigMap)

QUICK = Backoff(first_seconds=0.01, limit_seconds=0.1)
QUICK_CLIENT = ClientSettings(
    timeouts=Timeouts(connect_seconds=5, read_seconds=5, total_seconds=10, watch_seconds=20),
    requests_per_second=10_000,
    burst=10_000,
    backoff=QUICK,
)
QUICK_WATCH = WatchSettings(page_size=10, backoff=QUICK)


def credentials(server: str, token: str, ca_file: Path | str | None = None) -> Credentials:
    return Credentials(
        server,
        fixed(ClientIdentity(f"Bearer {token}")),
        Trust(Path(ca_file) if ca_file else None),
        source="test",
    )


def config_map(key: str, **data: str) -> dict[str, Any]:
    namespace, name = key.split("/")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name},
        "data": data,
    }


def path_of(key: str = "", namespace: str = "") -> str:
    namespace, _, name = key.partition("/") if key else (namespace, "", "")
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


class Outside:
    """Looks at and changes config maps past the client under test."""

    def __init__(self, client: OutsideClient) -> None:
        self.client = client

    def put(self, key: str, **data: str) -> None:
        """Create or change a config map."""
        if self.client.exists(path_of(key)):
            self.client.patch(path_of(key), {"data": data})
        else:
            self.client.create(path_of(namespace=key.split("/")[0]), config_map(key, **data))

    def delete(self, key: str) -> None:
        self.client.delete(path_of(key))

    def delete_if_there(self, key: str) -> None:
        if self.client.exists(path_of(key)):
            self.delete(key)

    def delete_all(self, namespace: str) -> None:
        self.client.delete(path_of(namespace=namespace))

    def contents(self) -> dict[str, tuple[str, int]]:
        """Uid and version of every config map there is."""
        return {
            f"{meta['namespace']}/{meta['name']}": (meta["uid"], int(meta["resourceVersion"]))
            for meta in (item["metadata"] for item in self.client.get(CONFIG_MAP.path)["items"])
        }


class Consumer:
    """Someone who only sees the changes, and complains about any that cannot be."""

    def __init__(self, watch: ListWatch[ConfigMap], table: ObjectTable[ConfigMap]) -> None:
        self.known: dict[str, tuple[str, int]] = {}
        self.complaints: list[str] = []
        self.seen: list[TableChange] = []
        self._table = table
        watch.subscribe(self.see)

    def see(self, change: TableChange) -> None:
        self.seen.append(change)
        uid, version = self.known.get(change.key, ("", 0))
        if change.type == "Added" and uid:
            self.complaints.append(f"{change}: is known already")
        if change.type != "Added" and change.uid != uid:
            self.complaints.append(f"{change}: is not known")
        if change.type == "Deleted":
            self.known.pop(change.key, None)
            return
        found = self._table.get(change.key)
        assert found is not None
        now = int(found.metadata.resource_version)
        if change.type == "Modified" and now <= version:
            self.complaints.append(f"{change}: version {now} after {version}")
        self.known[change.key] = (change.uid, now)


def contents_of(table: ObjectTable[ConfigMap]) -> dict[str, tuple[str, int]]:
    return {key: (uid, version) for key, uid, version in table.versions()}


async def eventually(
    condition: Callable[[], object], what: str = "", timeout_seconds: float = 120
) -> None:
    """Wait until something is true; fail with `what` if it does not become so."""
    started = time.monotonic()
    while True:
        asked = time.monotonic()
        if condition():
            return
        answered = time.monotonic()
        if answered > started + timeout_seconds:
            raise AssertionError(f"still not true after {timeout_seconds} s: {what or condition}")
        await asyncio.sleep(pause_before_asking_again(answered - asked, answered - started))
