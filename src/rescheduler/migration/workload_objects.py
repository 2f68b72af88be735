# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Workloads with what the tables leave out: pod templates and selectors."""

from dataclasses import dataclass

import msgspec

from rescheduler.model.objects import Deployment, Identity, Labels, LabelSelector, Part
from rescheduler.model.objects.workloads import ReplicaSet, ReplicationController


class TemplateMeta(Part):
    """The metadata that a template gives its pods."""

    labels: Labels = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class RawPodTemplate(Part):
    """The pod template of a workload. Its spec stays undecoded JSON: all of it is copied."""

    metadata: TemplateMeta = TemplateMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class WorkloadObjectSpec(Part):
    """The selector and the pod template of a workload."""

    selector: LabelSelector | None = None
    template: RawPodTemplate = RawPodTemplate()


class WorkloadObject(Part):
    """A ReplicaSet or ReplicationController, with what the tables leave out."""

    metadata: Identity
    spec: WorkloadObjectSpec = WorkloadObjectSpec()


class LabelMapSelectorSpec(Part):
    """ReplicationControllers select by a plain map of labels."""

    selector: Labels = {}


class LabelMapSelector(Part):
    """The selector of a ReplicationController."""

    spec: LabelMapSelectorSpec = LabelMapSelectorSpec()


@dataclass(frozen=True)
class ObservedWorkload:
    """A ReplicaSet or ReplicationController, and the Deployment that owns it, if one does."""

    kind: str
    owner: ReplicaSet | ReplicationController
    selector: LabelSelector
    template: RawPodTemplate
    deployment: Deployment | None = None
    lost_deployment: str = ""
    """The name of the Deployment that owns it and no longer exists: it is deleted soon."""

    @property
    def replicas(self) -> int:
        """The desired number of pods."""
        desired = self.owner.spec.replicas
        return 1 if desired is None else desired

    @property
    def ending(self) -> str:
        """Why it creates and adopts no more pods, or soon will not; else an empty string."""
        if self.lost_deployment:
            return f"Deployment {self.lost_deployment} no longer exists"
        above = self.deployment
        if above is not None and above.metadata.deletion_timestamp is not None:
            return f"{self.name} is being deleted"
        if self.owner.metadata.deletion_timestamp is not None:
            return f"{self.kind} {self.owner.metadata.name} is being deleted"
        return ""

    @property
    def name(self) -> str:
        """The name to show people: that of the Deployment, if there is one."""
        if self.deployment is not None:
            return f"Deployment {self.deployment.metadata.name}"
        return f"{self.kind} {self.owner.metadata.name}"
