"""What clients have asked of an API server, from its audit log."""

import json
from typing import Any, NamedTuple

from testcluster import TestCluster

Event = dict[str, Any]
DECISION = "authorization.k8s.io/decision"


class Permission(NamedTuple):
    """One right of a role."""

    group: str
    resource: str
    verb: str
    name: str = ""


class AuditLog:
    """The audit log of a cluster, from now on: others may have been the same account before."""

    def __init__(self, cluster: TestCluster) -> None:
        self._file = cluster.layout.audit_log
        self._start = self._file.stat().st_size

    def requests(self, user: str) -> list[Event]:
        """The requests of users whose name begins like this."""
        with self._file.open("rb") as file:
            file.seek(self._start)
            events = [json.loads(line) for line in file]
        # One that the client gave up before it was authenticated has no user.
        return [event for event in events if event["user"].get("username", "").startswith(user)]


def refused(events: list[Event]) -> list[Event]:
    """The requests that no right allows."""
    return [event for event in events if event["annotations"][DECISION] != "allow"]


def used(event: Event) -> tuple[Permission, Permission] | None:
    """What a request needed, without the name of its object and with it."""
    reference = event.get("objectRef")
    if reference is None:
        return None
    resource = "/".join(filter(None, [reference["resource"], reference.get("subresource")]))
    permission = Permission(reference.get("apiGroup", ""), resource, event["verb"])
    return permission, permission._replace(name=reference.get("name", ""))
