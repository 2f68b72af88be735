"""Creates Migration objects, on behalf of the planning loop, the commands and tests."""

import hashlib
from typing import Any

from rescheduler.errors import AlreadyExists
from rescheduler.kube.api_server import ApiServer, collection_path
from rescheduler.migration.migration_object import API_VERSION, MIGRATION, Migration
from rescheduler.model.moves import Mode

MAX_POD_NAME_PART = 200
HASH_LENGTH = 8


def migration_name(pod: str, uid: str, target: str, salt: str = "") -> str:
    """The name of the Migration for a move: the same request gives the same name.

    `salt` tells a later request for the same move from one that has finished.
    """
    digest = hashlib.sha256(f"{uid}/{target}/{salt}".encode()).hexdigest()
    return f"{pod[:MAX_POD_NAME_PART].rstrip('-.')}-{digest[:HASH_LENGTH]}"


def migration_body(
    pod: str,
    uid: str,
    target: str,
    *,
    mode: Mode = Mode.AUTO,
    strategy: str = "",
    reason: str = "",
    salt: str = "",
) -> dict[str, Any]:
    """A Migration as JSON for the API server; `pod` is `namespace/name`."""
    namespace, _, name = pod.partition("/")
    spec: dict[str, Any] = {"pod": {"name": name, "uid": uid}, "targetNode": target, "mode": mode}
    spec |= {"strategy": strategy} if strategy else {}
    spec |= {"reason": reason} if reason else {}
    return {
        "apiVersion": API_VERSION,
        "kind": "Migration",
        "metadata": {"name": migration_name(name, uid, target, salt), "namespace": namespace},
        "spec": spec,
    }


async def create_migration(server: ApiServer, body: dict[str, Any]) -> Migration | None:
    """Create a Migration; None if one of this name exists."""
    path = collection_path(MIGRATION, body["metadata"]["namespace"])
    try:
        answer = await server.create(path, body)
    except AlreadyExists:
        return None
    return answer.decode(Migration)
