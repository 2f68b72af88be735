"""Follows the pods of an installation from the first to the last."""

import threading
import time

from testcluster import TestCluster
from testcluster.client import JsonObject
from testcluster.namespace_watch import READ_SECONDS, NamespaceWatch

NO_WATCHER = "failed to create fsnotify watcher"
"""What the kubelet answers instead of a log. Other clusters on this machine have all instances."""


class PodWatch(NamespaceWatch):
    """All pods that a namespace has had meanwhile: each as it last was, and what it has logged."""

    def __init__(self, cluster: TestCluster, namespace: str) -> None:
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        super().__init__(cluster, {self._path: self._take})
        self.pods: dict[str, JsonObject] = {}
        """By uid, which a name may have more than one of."""
        self._logs: dict[str, list[str]] = {}

    @property
    def addresses(self) -> dict[str, JsonObject]:
        """The pods by their addresses."""
        return {
            pod["status"]["podIP"]: pod for pod in self.pods.values() if "podIP" in pod["status"]
        }

    @property
    def restarts(self) -> list[str]:
        """The pods of which a container was restarted, and how often."""
        return [
            f"{pod['metadata']['name']}: {status['restartCount']}"
            for pod in self.pods.values()
            for status in pod["status"].get("containerStatuses", [])
            if status["restartCount"]
        ]

    @property
    def logs(self) -> dict[str, list[str]]:
        """What each pod has logged until now."""
        return {self.pods[uid]["metadata"]["name"]: lines for uid, lines in self._logs.items()}

    def _take(self, type: str, pod: JsonObject) -> None:
        uid, statuses = pod["metadata"]["uid"], pod["status"].get("containerStatuses", [])
        self.pods[uid] = pod
        if uid not in self._logs and any("running" in status["state"] for status in statuses):
            self._logs[uid] = []
            arguments = (pod["metadata"]["name"], self._logs[uid])
            threading.Thread(target=self._read_log, args=arguments, daemon=True).start()

    def _read_log(self, name: str, lines: list[str]) -> None:
        """Follow a log; begin anew for as long as the kubelet finds no inotify instance for it."""
        while True:
            connection = self._client.connect()
            connection.timeout = READ_SECONDS
            headers = {"Authorization": f"Bearer {self._client.token}"}
            connection.request("GET", f"{self._path}/{name}/log?follow=true", headers=headers)
            lines += (line.decode().rstrip() for line in connection.getresponse())
            if not (lines and lines[-1].startswith(NO_WATCHER)):
                return
            lines.clear()
            time.sleep(1)
