"""Asking for moves: the Migration objects that planner, commands and tests create."""

import hashlib
from typing import Any

from rescheduler.errors import AlreadyExists
from rescheduler.kube.api_server import ApiServer, collection_path
from rescheduler.migration.migration_object import API_VERSION, MIGRATION, Migration
from rescheduler.model.moves import Mode
from rescheduler.planning.plan import Move

LONGEST_POD_PART = 200
ID_LENGTH = 8


def migration_name(pod: str, uid: str, target: str, again: str = "") -> str:
    """The name of the Migration for a move: asking twice for the same is asking once.

    `again` tells one that is asked for later from one that has finished.
    """
    digest = hashlib.sha256(f"{uid}/{target}/{again}".encode()).hexdigest()
    return f"{pod[:LONGEST_POD_PART].rstrip('-.')}-{digest[:ID_LENGTH]}"


def migration_body(
    pod: str,
    uid: str,
    target: str,
    *,
    mode: Mode = Mode.AUTO,
    strategy: str = "",
    reason: str = "",
    again: str = "",
) -> dict[str, Any]:
    """A Migration as the server takes it; `pod` is `namespace/name`."""
    namespace, _, name = pod.partition("/")
    spec: dict[str, Any] = {"pod": {"name": name, "uid": uid}, "targetNode": target, "mode": mode}
    spec |= {"strategy": strategy} if strategy else {}
    spec |= {"reason": reason} if reason else {}
    return {
        "apiVersion": API_VERSION,
        "kind": "Migration",
        "metadata": {"name": migration_name(name, uid, target, again), "namespace": namespace},
        "spec": spec,
    }


def body_for(
    move: Move, uid: str, *, again: str = "", may_evict: bool = False, by_hand: bool = False
) -> dict[str, Any]:
    """The Migration for a planned move.

    `may_evict` lets a handoff that turns out not to fit go on as an eviction; `by_hand` says that
    a person asked for it, who does not want it withdrawn when it has to wait.
    """
    return migration_body(
        move.pod,
        uid,
        move.target,
        mode=Mode.AUTO if may_evict and move.mode == Mode.HANDOFF else move.mode,
        strategy="" if by_hand else move.strategy,
        reason=move.reason,
        again=again,
    )


async def request(server: ApiServer, body: dict[str, Any]) -> Migration | None:
    """Create a Migration; None if it has been asked for already."""
    path = collection_path(MIGRATION, body["metadata"]["namespace"])
    try:
        answer = await server.create(path, body)
    except AlreadyExists:
        return None
    return answer.decode(Migration)
