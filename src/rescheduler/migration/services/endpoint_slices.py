# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""EndpointSlices: which pods the proxies send a Service's traffic to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rescheduler.labels import SERVICE_NAME
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Labels, Part, Service
from rescheduler.model.objects.parts import Timestamp


class FieldManager(Part):
    """Who has changed an object, and when last."""

    time: Timestamp | None = None


class SliceMeta(Identity):
    """The metadata of an EndpointSlice."""

    labels: Labels = {}
    managed_fields: tuple[FieldManager, ...] = ()

    @property
    def changed_at(self) -> Timestamp | None:
        """When it was changed last, in whole seconds; None if it does not say so."""
        times = [manager.time for manager in self.managed_fields if manager.time is not None]
        return max(times, default=None)


class EndpointConditions(Part):
    """The state of an endpoint; unknown counts as ready."""

    ready: bool | None = None
    terminating: bool = False


class EndpointTarget(Part):
    """The object behind an endpoint."""

    uid: str = ""


class Endpoint(Part):
    """One pod that a Service sends traffic to."""

    conditions: EndpointConditions = EndpointConditions()
    target_ref: EndpointTarget = EndpointTarget()


class EndpointSlice(Part):
    """A part of the endpoints of a Service."""

    metadata: SliceMeta
    endpoints: tuple[Endpoint, ...] = ()


ENDPOINT_SLICE = Kind("EndpointSlice", "discovery.k8s.io/v1", "endpointslices", True, EndpointSlice)


@dataclass(frozen=True)
class OtherEndpoints:
    """Which Services send traffic to one pod, and which to others."""

    with_pod: frozenset[str] = frozenset()
    """The Services that send traffic to the pod."""
    with_stand_in: frozenset[str] = frozenset()
    """The Services that send traffic to the pod that takes its place."""
    with_any: frozenset[str] = frozenset()
    """The Services that send traffic to any other pod."""
    with_starting: frozenset[str] = frozenset()
    """The Services that will send traffic to another pod, which is not ready yet."""
    changed_at: Timestamp | None = None
    """When one of the slices was changed last; None if they do not say so."""

    def with_page(
        self, pod_uid: str, stand_in_uid: str, slices: Sequence[EndpointSlice]
    ) -> "OtherEndpoints":
        """These and those of one more page of the list."""
        with_pod, with_stand_in = set(self.with_pod), set(self.with_stand_in)
        with_any, with_starting = set(self.with_any), set(self.with_starting)
        for found in slices:
            service = found.metadata.labels.get(SERVICE_NAME, "")
            for endpoint in found.endpoints:
                uid, conditions = endpoint.target_ref.uid, endpoint.conditions
                if conditions.ready is False:
                    if not conditions.terminating and uid != pod_uid:
                        with_starting.add(service)
                elif uid == pod_uid:
                    with_pod.add(service)
                else:
                    with_any.add(service)
                    with_stand_in |= {service} if uid == stand_in_uid else set()
        changes = [self.changed_at, *(found.metadata.changed_at for found in slices)]
        return OtherEndpoints(
            frozenset(with_pod),
            frozenset(with_stand_in),
            frozenset(with_any),
            frozenset(with_starting),
            max((moment for moment in changes if moment is not None), default=None),
        )


def can_be_left(service: Service) -> bool:
    """Whether a Service stops to send traffic to a pod that is not Ready."""
    spec = service.spec
    return bool(spec.selector) and not spec.publish_not_ready_addresses and not is_alias(service)


def is_alias(service: Service) -> bool:
    """Whether a Service is only another name for something outside the cluster."""
    return service.spec.type == "ExternalName"


def is_selected(service: Service, labels: Labels) -> bool:
    """Whether a Service selects a pod with these labels."""
    return service.spec.selector.items() <= labels.items()


def slices_of(services: Iterable[str]) -> str:
    """A label selector of the EndpointSlices of these Services."""
    return f"{SERVICE_NAME} in ({','.join(sorted(services))})"
