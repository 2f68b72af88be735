# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Which pods belong together: those that the pod's Services and its owner select.

The scheduler spreads them even if they say nothing about it. Nothing else here reads Services,
so their kind is not among those that are watched on a real cluster.
"""

from collections import defaultdict

from rescheduler.model import kinds
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import LabelSelector
from rescheduler.model.objects.parts import Identity, Labels, Part
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import ObjectTable


class ServiceSpec(Part):
    """Whom a Service sends its traffic to; without a selector, to no pod that it knows."""

    selector: Labels = {}


class Service(Part):
    """A name under which pods are reached."""

    metadata: Identity
    spec: ServiceSpec = ServiceSpec()


SERVICE = Kind("Service", "v1", "services", True, Service)


class DefaultSelectors:
    """Finds the selector of the pods that a pod belongs together with."""

    def __init__(self, tables: ClusterTables, services: ObjectTable[Service]) -> None:
        self._tables = tables
        self._services = services
        self._seen_changes = -1
        self._selectors_in: defaultdict[str, list[Labels]] = defaultdict(list)

    def selector_for(self, template: PodTemplate) -> LabelSelector | None:
        """Selects all that the pod's Services and its owner select; None if there are none."""
        labels: Labels = {}
        for selected in self._selectors(template.namespace):
            if selected.items() <= template.labels.items():
                labels.update(selected)
        own = self._selector_of_owner(template)
        selector = LabelSelector({**labels, **own.match_labels}, own.match_expressions)
        return selector if selector.match_labels or selector.match_expressions else None

    def _selectors(self, namespace: str) -> list[Labels]:
        if self._services.changes != self._seen_changes:
            self._seen_changes = self._services.changes
            self._selectors_in.clear()
            for service in self._services.by_key().values():
                if service.spec.selector:
                    self._selectors_in[service.metadata.namespace].append(service.spec.selector)
        return self._selectors_in[namespace]

    def _selector_of_owner(self, template: PodTemplate) -> LabelSelector:
        owner = template.owner
        if owner is None:
            return LabelSelector()
        key = f"{template.namespace}/{owner.name}"
        match owner.api_version, owner.kind:
            case "v1", "ReplicationController":
                controller = self._tables.of(kinds.REPLICATION_CONTROLLER).get(key)
                return LabelSelector(controller.spec.selector if controller is not None else {})
            case "apps/v1", "ReplicaSet":
                workload = self._tables.of(kinds.REPLICA_SET).get(key)
            case "apps/v1", "StatefulSet":
                workload = self._tables.of(kinds.STATEFUL_SET).get(key)
            case _:
                workload = None
        return (workload is not None and workload.spec.selector) or LabelSelector()
