# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Parts that many kinds of objects have: metadata, selectors, conditions, and lists."""

from datetime import datetime
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from rescheduler.labels import (
    BIND_COMPLETED,
    CORDONED_BY,
    DEFAULT_STORAGE_CLASS,
    DO_NOT_DISRUPT,
    HANDOFF,
    MIGRATED_PLUGINS,
    MIRROR_POD,
    MOVE_COST,
    NODE_COST,
    OLD_STORAGE_CLASS,
    ORIGINAL_POD,
    PREVIOUS_MARKS,
    SAFE_TO_EVICT,
    SELECTED_NODE,
    STEERED_BY,
)
from rescheduler.model.quantities import Quantity

T = TypeVar("T")

ResourceList = dict[str, Quantity]
Labels = dict[str, str]
Timestamp = Annotated[datetime, Meta(tz=True)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Part(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename="camel",
    omit_defaults=True,
    repr_omit_defaults=True,
):
    """A part of an object. Absent fields stay absent when it is written back as JSON."""


class OwnerReference(Part):
    """Who an object belongs to. At most one owner is the controller."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Annotations(Part):
    """The annotations that change what we do. All others are skipped while decoding."""

    safe_to_evict: str = msgspec.field(default="", name=SAFE_TO_EVICT)
    do_not_disrupt: str = msgspec.field(default="", name=DO_NOT_DISRUPT)
    handoff: str = msgspec.field(default="", name=HANDOFF)
    # Numbers if all is well; but an invalid one must not keep an object from being read.
    move_cost: str = msgspec.field(default="", name=MOVE_COST)
    node_cost: str = msgspec.field(default="", name=NODE_COST)
    cordoned_for_maintenance: str = msgspec.field(default="", name=CORDONED_BY)
    default_storage_class: str = msgspec.field(default="", name=DEFAULT_STORAGE_CLASS)
    # What migrations have written on a pod. Templates do not have it: it differs by pod.
    original_pod: str | None = msgspec.field(default=None, name=ORIGINAL_POD)
    previous_marks: str | None = msgspec.field(default=None, name=PREVIOUS_MARKS)
    steered_by: str | None = msgspec.field(default=None, name=STEERED_BY)
    # These count by being there, whatever they say.
    mirror: str | None = msgspec.field(default=None, name=MIRROR_POD)
    selected_node: str | None = msgspec.field(default=None, name=SELECTED_NODE)
    bind_completed: str | None = msgspec.field(default=None, name=BIND_COMPLETED)
    storage_class: str | None = msgspec.field(default=None, name=OLD_STORAGE_CLASS)
    migrated_plugins: str = msgspec.field(default="", name=MIGRATED_PLUGINS)


class Identity(Part):
    """Which object it is, in which version, and whose. Enough for workloads."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    deletion_timestamp: Timestamp | None = None
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that creates and deletes this object, if any."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class ObjectMeta(Identity):
    """What objects have whose labels, annotations or age mean something to us."""

    creation_timestamp: Timestamp | None = None
    labels: Labels = {}
    annotations: Annotations = Annotations()


class Requirement(Part):
    """One expression of a selector: key, operator, values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Part):
    """Matches labels: all of its pairs and all of its expressions."""

    match_labels: Labels = {}
    match_expressions: tuple[Requirement, ...] = ()


class NodeSelectorTerm(Part):
    """Matches nodes by labels and by fields; a term with neither matches nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Part):
    """Terms of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Condition(Part):
    """One aspect of an object's state."""

    type: str
    status: str = ""
    reason: str = ""


class ResourceRequirements(Part):
    """What a container, or a whole pod, asks for."""

    requests: ResourceList = {}


class ListMeta(Part):
    """Where a list was taken, and how to get its next page."""

    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list."""

    items: list[T] = []
    metadata: ListMeta = ListMeta()
