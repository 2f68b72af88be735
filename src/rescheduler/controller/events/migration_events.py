"""Kubernetes Events about migrations: on the Migration, and on the pod that is moved.

Each reads as a sentence that says what happens to which pod, between which nodes, and why.
"""

from typing import assert_never

from rescheduler.kube.event_recorder import EventRecorder, about_pod
from rescheduler.migration.migration_object import API_VERSION, Migration, MigrationStatus
from rescheduler.migration.state_machine.actions import MigrationEvent
from rescheduler.model.moves import Mode, Outcome

WARNINGS = (MigrationEvent.FAILED, MigrationEvent.UNDOING, MigrationEvent.RETRYING)


class MigrationEventRecorder(EventRecorder):
    """Sends Events about migrations to the API server."""

    def record_for(
        self, migration: Migration, event: MigrationEvent, status: MigrationStatus
    ) -> None:
        """Record an Event on the Migration, which now has this status, and one on the pod."""
        pod = migration.spec.pod
        moved = about_pod(migration.metadata.namespace, pod.name, pod.uid)
        message = sentence(migration, event, status)
        for about in (reference(migration), moved):
            self.record(about, event, message, warning=event in WARNINGS)


def sentence(migration: Migration, event: MigrationEvent, status: MigrationStatus) -> str:
    """What the Event says."""
    pod, target = f"pod {migration.pod_key}", f"node {migration.spec.target_node}"
    source = f" from node {status.source_node}" if status.source_node else ""
    move, why = f"{pod}{source} to {target}", status.message
    new = f"{migration.metadata.namespace}/{status.new_pod}"
    match event:
        case MigrationEvent.STARTED:
            retry = f"attempt {status.attempts} " if status.attempts > 1 else ""
            how = f"by {status.mode.lower()}" if status.mode is not None else ""
            reason = migration.spec.reason or "a Migration asks for it"
            text = f"Started {retry}to move {move} {how}: {reason}"
        case MigrationEvent.NEW_POD_CREATED:
            text = f"Created pod {new} for {target}; it is to replace {pod}{source}"
        case MigrationEvent.NEW_POD_READY:
            ready = f"Pod {new} is Ready on node {status.new_node}"
            text = f"{ready}, so {pod}{source} is no longer needed and is stopped"
        case MigrationEvent.EVICTED:
            text = f"Evicted {pod}{source}; its replacement is wanted on {target}"
        case MigrationEvent.UNDOING:
            text = f"Undoing the move of {move}: {why}"
        case MigrationEvent.RETRYING:
            text = f"Will try again to move {move}, because the last attempt failed: {why}"
        case MigrationEvent.COMPLETED:
            text = completion(status, pod, source, target, new)
        case MigrationEvent.FAILED:
            text = f"Failed to move {move}: {why}"
        case MigrationEvent.CANCELLED:
            text = f"Cancelled the move of {move}: {why}"
        case _:
            assert_never(event)
    return ended(text)


def completion(status: MigrationStatus, pod: str, source: str, target: str, new: str) -> str:
    """Where the work of a pod is done after its migration."""
    replaced = f"Moved {pod}{source}"
    if status.outcome == Outcome.LANDED:
        is_known = status.new_pod and status.mode != Mode.EVICT
        return f"{replaced} to {target}" + (f": pod {new} has replaced it" if is_known else "")
    if status.outcome == Outcome.CAME_BACK:
        return f"Tried to move {pod}{source} to {target}, but its replacement came back"
    return f"{replaced}, but its replacement runs on node {status.new_node} instead of {target}"


def ended(text: str) -> str:
    """The text as a sentence: others' messages may end with a full stop or without."""
    text = " ".join(text.split()).rstrip(":; ")
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


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
