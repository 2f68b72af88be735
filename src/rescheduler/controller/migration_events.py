"""Kubernetes Events about migrations: on the Migration, and on the pod that is moved."""

from rescheduler.kube.event_recorder import EventRecorder, about_pod
from rescheduler.migration.migration_object import API_VERSION, Migration

WARNINGS = ("MigrationFailed", "MigrationUndoing", "MigrationRetrying")


class MigrationEventRecorder(EventRecorder):
    """Sends Events about migrations to the API server."""

    def record_for(self, migration: Migration, reason: str, message: str) -> None:
        """Record an Event on the Migration, and one on the pod that is moved."""
        pod = migration.spec.pod
        moved = about_pod(migration.metadata.namespace, pod.name, pod.uid)
        for about in (reference(migration), moved):
            self.record(about, reason, message, warning=reason in WARNINGS)


def reference(migration: Migration) -> dict[str, str]:
    """The reference to a Migration in an Event."""
    metadata = migration.metadata
    return {
        "apiVersion": API_VERSION,
        "kind": "Migration",
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
    }
