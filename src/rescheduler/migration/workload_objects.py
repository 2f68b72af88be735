# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""What new pods are made from, and who selects them: the parts of objects that tables leave out."""

import msgspec

from rescheduler.model.objects import Identity, Labels, LabelSelector, Part


class TemplateMeta(Part):
    """What a template writes on its pods."""

    labels: Labels = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class PodTemplate(Part):
    """What a workload makes its pods from. The spec is kept as it came: all of it is copied."""

    metadata: TemplateMeta = TemplateMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class OwnerSpec(Part):
    """How a workload finds its pods, and what it makes them from."""

    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()


class WorkloadObject(Part):
    """A ReplicaSet or ReplicationController, as far as tables leave it out."""

    metadata: Identity
    spec: OwnerSpec = OwnerSpec()


class PlainSelectorSpec(Part):
    """The one thing in which a ReplicationController differs."""

    selector: Labels = {}


class PlainSelector(Part):
    """A ReplicationController, as far as it differs."""

    spec: PlainSelectorSpec = PlainSelectorSpec()
