"""Watches a namespace from outside, and counts the Ready pods after every change."""

import http.client
import json
import socket
import threading
from collections import defaultdict
from types import TracebackType
from typing import Any, Self

from testcluster import TestCluster
from testcluster.client import Client
from tests.migration.support import is_ready

READ_SECONDS = 600.0


class ReadyPodWatch:
    """Watches pods and ReplicaSets over connections of its own, in threads of its own.

    `fewest` and `most` are the least and the greatest number of Ready pods that each app ever
    had; `fewest_counted` is what the ReplicaSets themselves counted.
    """

    def __init__(self, cluster: TestCluster, namespace: str) -> None:
        self.fewest: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.fewest_counted: dict[str, int] = {}
        self.events = 0
        self._client: Client = cluster.client
        self._paths = {
            self._take_pod: f"/api/v1/namespaces/{namespace}/pods",
            self._take_replica_set: f"/apis/apps/v1/namespaces/{namespace}/replicasets",
        }
        self._ready: defaultdict[str, set[str]] = defaultdict(set)
        self._connections: list[http.client.HTTPSConnection] = []
        self._threads: list[threading.Thread] = []
        self.problems: list[str] = []
        self._ends = False

    def __enter__(self) -> Self:
        for take, path in self._paths.items():
            listed = self._client.get(path)
            for item in listed["items"]:
                take("ADDED", item)
            self.fewest = {app: len(names) for app, names in self._ready.items()}
            version = listed["metadata"]["resourceVersion"]
            thread = threading.Thread(target=self._follow, args=(take, path, version), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ends = True
        for connection in self._connections:
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        self._client.close()

    def _follow(self, take: Any, path: str, version: str) -> None:
        connection = self._client.connect()
        connection.timeout = READ_SECONDS
        self._connections.append(connection)
        headers = {"Authorization": f"Bearer {self._client.token}"}
        connection.request("GET", f"{path}?watch=true&resourceVersion={version}", headers=headers)
        try:
            for line in connection.getresponse():
                event = json.loads(line)
                take(event["type"], event["object"])
        except (OSError, ValueError, http.client.HTTPException, AttributeError) as error:
            if not self._ends:
                self.problems.append(f"the watcher lost {path}: {error!r}")
        else:
            if not self._ends:
                self.problems.append(f"the watcher's connection to {path} ended")

    def _take_pod(self, type: str, pod: dict[str, Any]) -> None:
        if type == "ERROR":
            self.problems.append(str(pod))
            return
        self.events += 1
        app = pod["metadata"].get("labels", {}).get("app", "")
        names = self._ready[app]
        if type != "DELETED" and is_ready(pod):
            names.add(pod["metadata"]["name"])
        else:
            names.discard(pod["metadata"]["name"])
        self.fewest[app] = min(self.fewest.get(app, len(names)), len(names))
        self.most[app] = max(self.most.get(app, 0), len(names))

    def _take_replica_set(self, type: str, found: dict[str, Any]) -> None:
        name = found["metadata"]["name"]
        ready = found.get("status", {}).get("readyReplicas", 0)
        if found["spec"]["replicas"] and type != "DELETED":
            self.fewest_counted[name] = min(self.fewest_counted.get(name, ready), ready)
