"""Kubernetes Events about migrations: on the Migration, and on the pod that is moved."""

from rescheduler.kube.event_recorder import EventRecorder, about_pod
from rescheduler.migration.migration_object import API_VERSION, Migration

WARNINGS = ("MigrationFailed", "MigrationUndoing", "MigrationRetrying")


class MigrationEventRecorder(EventRecorder):
    """Events on their way to the server."""

    def tell(self, migration: Migration, reason: str, message: str) -> None:
        """Tell it of the Migration and of the pod that is moved."""
        pod = migration.spec.pod
        moved = about_pod(migration.metadata.namespace, pod.name, pod.uid)
        for about in (reference(migration), moved):
            self.record(about, reason, message, warning=reason in WARNINGS)


def reference(migration: Migration) -> dict[str, str]:
    """The Migration that an Event is about."""
    metadata = migration.metadata
    return {
        "apiVersion": API_VERSION,
        "kind": "Migration",
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
    }
