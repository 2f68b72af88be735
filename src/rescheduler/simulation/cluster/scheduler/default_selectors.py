"""Which pods belong together: those that the pod's Services and its owner select.

kube-scheduler spreads them by default, even if they have no spread constraints.
"""

from collections import defaultdict

from rescheduler.model import kinds
from rescheduler.model.objects import Labels, LabelSelector, Service
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import ObjectTable


class DefaultSelectors:
    """The selector of the pods that a pod belongs together with."""

    def __init__(self, tables: ClusterTables, services: ObjectTable[Service]) -> None:
        self._tables = tables
        self._services = services
        self._seen_changes = -1
        self._selectors_in: defaultdict[str, list[Labels]] = defaultdict(list)

    def selector_for(self, template: PodTemplate) -> LabelSelector | None:
        """The labels and expressions of all of them together; None if nothing selects the pod."""
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
