"""What keeps pods where they are as long as they live: their kind, their owner, their annotations.

Replicas share all of it, so it is asked of their template.
"""

from rescheduler.labels import DO_NOT_DISRUPT, RESCHEDULING, SAFE_TO_EVICT
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.rules.immovable_pods import (
    disables_rescheduling,
    is_daemon_pod,
    is_static_pod,
)
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.movability.blocker import Blocker
from rescheduler.planning.movability.excluded_pods import EXCLUDED, excludes_template
from rescheduler.planning.movability.move_modes import MoveModes
from rescheduler.planning.movability.workload_owners import WorkloadOwners
from rescheduler.settings import Policy

_SYSTEM_PRIORITY = 2_000_000_000


class PermanentBlockers:
    """Finds what will still block a move tomorrow."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, workloads: WorkloadOwners, modes: MoveModes
    ) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._workloads = workloads
        self._modes = modes

    def blocker(self, template: int) -> Blocker | None:
        """The first thing that keeps pods of this template where they are, or None."""
        pod = self._snapshot.templates[template]
        return (
            self._blocked_by_kind(pod)
            or self._blocked_by_policy(pod)
            or self._blocked_by_annotation(pod)
            or self._blocked_by_owner(template, pod)
            or (self._blocked_by_volumes(pod) if pod.volumes else None)
        )

    def _blocked_by_kind(self, pod: PodTemplate) -> Blocker | None:
        if pod.owner is not None and is_daemon_pod(pod.owner.kind):
            return Blocker("DaemonSetPod", f"DaemonSet {pod.owner.name} runs one pod on each node")
        if is_static_pod(pod.owner_kind, pod.annotations.mirror):
            return Blocker("StaticPod", "its node runs it from a file")
        if pod.resource_claims:
            return Blocker("ResourceClaims", "it uses devices through resource claims")
        return None

    def _blocked_by_policy(self, pod: PodTemplate) -> Blocker | None:
        if pod.namespace in self._policy.excluded_namespaces:
            return Blocker("ExcludedNamespace", f"namespace {pod.namespace} is excluded")
        if pod.priority >= _SYSTEM_PRIORITY:
            name = pod.priority_class_name or f"priority {pod.priority}"
            return Blocker("SystemPod", f"{name} marks it as part of the system")
        if excludes_template(self._policy.excluded_pod_selector, pod):
            return EXCLUDED
        return None

    def _blocked_by_annotation(self, pod: PodTemplate) -> Blocker | None:
        if disables_rescheduling(pod.labels):
            return Blocker("ReschedulingDisabled", f"its label {RESCHEDULING} is disabled")
        if pod.annotations.safe_to_evict == "false":
            return Blocker("NotSafeToEvict", f"its annotation {SAFE_TO_EVICT} is false")
        if pod.annotations.do_not_disrupt == "true":
            return Blocker("DoNotDisrupt", f"its annotation {DO_NOT_DISRUPT} is true")
        return None

    def _blocked_by_owner(self, template: int, pod: PodTemplate) -> Blocker | None:
        if pod.owner is None:
            return self._blocked_for_being_bare(template, pod)
        if pod.owner.kind == "Job" and not self._policy.allow_job_pods:
            return Blocker("JobPod", f"Job {pod.owner.name} would have to restart its work")
        if ending := self._workloads.ending(template):
            return Blocker("OwnerGone", f"{ending}, so nothing would replace it")
        return None

    def _blocked_for_being_bare(self, template: int, pod: PodTemplate) -> Blocker | None:
        if not self._policy.allow_bare_pods:
            return Blocker("BarePod", "no controller would recreate it")
        # Evicted first, it would be lost if the copy cannot be made.
        why_no_copy = (
            "it runs to completion, and a copy would do its work twice"
            if pod.runs_to_completion
            else self._modes.why_no_second_copy(template)
        )
        return Blocker("BarePod", f"it cannot be copied: {why_no_copy}") if why_no_copy else None

    def _blocked_by_volumes(self, pod: PodTemplate) -> Blocker | None:
        if self._policy.allow_local_storage:
            return None
        if any(volume.host_path is not None for volume in pod.volumes):
            return Blocker("LocalStorage", "it uses a directory of its node (hostPath)")
        if any(volume.empty_dir is not None for volume in pod.volumes):
            return Blocker("LocalStorage", "its emptyDir would be lost")
        return None
