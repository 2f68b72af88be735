"""Roles for people: what the commands need, and nothing more. They are bound to nobody.

`tests/install/test_people_roles.py` compares them with what the commands ask of a real API server.
"""

from rescheduler.install.rights import (
    LEASE_NAME,
    READ_REASONS,
    Right,
    RoleDefinition,
    right,
)
from rescheduler.migration.memory.move_record import MOVE_RECORD
from rescheduler.migration.migration_object import MIGRATION
from rescheduler.model import kinds

AGGREGATED = RoleDefinition(
    "rescheduler-view",
    "see Migrations and MoveRecords",
    [
        right(kind, ("get", "list", "watch"), READ_REASONS[kind])
        for kind in (MIGRATION, MOVE_RECORD)
    ],
)
"""Part of the roles `view`, `edit` and `admin` that every cluster has."""

VIEWING = RoleDefinition(
    "rescheduler-user-view",
    "run plan, explain, snapshot, history and status",
    [
        *AGGREGATED.rights,
        *(
            right(kind, ("list",), reason)
            for kind, reason in READ_REASONS.items()
            if kind not in (MIGRATION, MOVE_RECORD)
        ),
    ],
)

ASKING = RoleDefinition(
    "rescheduler-user-status",
    "ask the leader for its status",
    [
        Right("coordination.k8s.io", ("leases",), ("get",), "who leads", names=(LEASE_NAME,)),
        right(kinds.POD, ("get", "list"), "the port of the leader's pod, or of any other"),
        right(kinds.POD, ("get", "create"), "its status, at a forwarded port", sub="portforward"),
    ],
    is_namespaced=True,
)

USER_MOVING = RoleDefinition(
    "rescheduler-user-move",
    "run move, too",
    [
        *VIEWING.rights,
        right(MIGRATION, ("create", "delete"), "moves are requested, and withdrawn"),
    ],
    needs="moves",
)

USER_DRAINING = RoleDefinition(
    "rescheduler-user-drain",
    "run drain, too",
    [
        *USER_MOVING.rights,
        right(kinds.NODE, ("get", "patch"), "the node is cordoned"),
        Right("", ("events",), ("create",), "the node gets an Event that says so"),
    ],
    needs="moves",
)

PEOPLE_ROLES = (VIEWING, ASKING, USER_MOVING, USER_DRAINING)
