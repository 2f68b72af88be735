# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Parts that many kinds of objects have: metadata, selectors, conditions, and lists."""

from datetime import datetime
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

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

    safe_to_evict: str = msgspec.field(
        default="", name="cluster-autoscaler.kubernetes.io/safe-to-evict"
    )
    do_not_disrupt: str = msgspec.field(default="", name="karpenter.sh/do-not-disrupt")
    mirror: str = msgspec.field(default="", name="kubernetes.io/config.mirror")
    handoff: str = msgspec.field(default="", name="rescheduler.dev/handoff")
    # Numbers if all is well; but an invalid one must not keep an object from being read.
    move_cost: str = msgspec.field(default="", name="rescheduler.dev/move-cost")
    node_cost: str = msgspec.field(default="", name="rescheduler.dev/node-cost")
    cordoned_for_maintenance: str = msgspec.field(
        default="", name="rescheduler.dev/cordoned-for-maintenance"
    )
    default_storage_class: str = msgspec.field(
        default="", name="storageclass.kubernetes.io/is-default-class"
    )
    # The storage ones count by being there, whatever they say.
    selected_node: str | None = msgspec.field(
        default=None, name="volume.kubernetes.io/selected-node"
    )
    bind_completed: str | None = msgspec.field(default=None, name="pv.kubernetes.io/bind-completed")
    storage_class: str | None = msgspec.field(
        default=None, name="volume.beta.kubernetes.io/storage-class"
    )
    migrated_plugins: str = msgspec.field(
        default="", name="storage.alpha.kubernetes.io/migrated-plugins"
    )


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
