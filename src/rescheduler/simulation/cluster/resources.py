"""The resources of the simulated API server."""

from dataclasses import dataclass
from typing import Any

from rescheduler.errors import SettingsError
from rescheduler.migration.memory.move_record import MOVE_RECORD
from rescheduler.migration.migration_object import MIGRATION
from rescheduler.migration.services.endpoint_slices import ENDPOINT_SLICE
from rescheduler.model import kinds
from rescheduler.model.kinds import Kind


@dataclass(frozen=True)
class Resource:
    """A kind of object, and how the API server treats it."""

    name: str
    api_version: str
    plural: str
    namespaced: bool
    has_status: bool = False
    """Whether it has a status subresource, which all other writes leave alone."""
    counts_generations: bool = False
    """Whether a change of the spec increments metadata.generation."""


def resource(kind: Kind[Any], has_status: bool = False, counts: bool = False) -> Resource:
    """The resource of a kind of the model."""
    return Resource(kind.name, kind.api_version, kind.plural, kind.namespaced, has_status, counts)


EVENT = Resource("Event", "v1", "events", True)
RESOURCES = (
    resource(kinds.NODE, has_status=True),
    resource(kinds.POD, has_status=True),
    resource(kinds.NAMESPACE, has_status=True),
    resource(kinds.BUDGET, has_status=True, counts=True),
    resource(kinds.REPLICA_SET, has_status=True, counts=True),
    resource(kinds.REPLICATION_CONTROLLER, has_status=True, counts=True),
    resource(kinds.DEPLOYMENT, has_status=True, counts=True),
    resource(kinds.STATEFUL_SET, has_status=True, counts=True),
    resource(kinds.DAEMON_SET, has_status=True, counts=True),
    resource(kinds.JOB, has_status=True, counts=True),
    resource(kinds.PRIORITY_CLASS),
    resource(kinds.VOLUME, has_status=True),
    resource(kinds.CLAIM, has_status=True),
    resource(kinds.STORAGE_CLASS),
    resource(kinds.CSI_NODE),
    resource(kinds.CSI_DRIVER),
    resource(MIGRATION, has_status=True, counts=True),
    resource(MOVE_RECORD, counts=True),
    resource(kinds.SERVICE, has_status=True),
    # There are none: no traffic is simulated, so no pod has to leave its Services.
    resource(ENDPOINT_SLICE),
    EVENT,
)

BY_NAME = {known.name: known for known in RESOURCES}
BY_PATH = {(known.api_version, known.plural): known for known in RESOURCES}


def resource_named(kind: str) -> Resource:
    """The resource of a kind; `SettingsError` if it is not simulated."""
    found = BY_NAME.get(kind)
    if found is None:
        raise SettingsError(f"kind {kind!r}: not simulated, expected one of {', '.join(BY_NAME)}")
    return found
