"""May this pod be moved at all? Nothing in the way, or the blocker.

What a node would say to the pod is the judge's business; here is what the pod, its owner, its
budgets and the policy say. Blockers are checked from the lasting (it is a DaemonSet's) to the
passing (its budget allows nothing right now), so the first one found is the most telling.
"""

from functools import cached_property
from typing import NamedTuple

from rescheduler.labels import RESCHEDULING
from rescheduler.model.objects import Deployment, PodDisruptionBudget
from rescheduler.model.selectors import selects
from rescheduler.model.snapshot import RUNNING, Snapshot
from rescheduler.model.templates import Template
from rescheduler.planning.plan import Mode
from rescheduler.settings import Policy

_SYSTEM_PRIORITY = 2_000_000_000
_HANDOFF_OWNERS = ("ReplicaSet", "ReplicationController")
_SINGLE_WRITER = {"ReadWriteOnce", "ReadWriteOncePod"}


class Blocker(NamedTuple):
    """Why a pod must stay: a name to count by, and a sentence for people."""

    name: str
    detail: str


class Movability:
    """What stands in the way of moving each pod of a snapshot, and how it would be moved."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._of_template: dict[int, Blocker | None] = {}
        self._modes: dict[int, Mode] = {}
        self._budgets_of: dict[int, list[PodDisruptionBudget]] = {}

    def blocker(self, pod: int) -> Blocker | None:
        """The first thing that keeps the pod where it is, or None if it may be moved."""
        template = int(self._snapshot.pods.template[pod])
        if template not in self._of_template:
            self._of_template[template] = self._lasting_blocker(self._snapshot.templates[template])
        return self._of_template[template] or self._passing_blocker(pod, template)

    def mode(self, template: int) -> Mode:
        """The gentlest way to move pods of this template."""
        if template not in self._modes:
            must_evict = self._why_not_handoff(self._snapshot.templates[template])
            self._modes[template] = Mode.EVICT if must_evict else Mode.HANDOFF
        return self._modes[template]

    def budgets(self, template: int) -> list[PodDisruptionBudget]:
        """The disruption budgets that cover pods of this template."""
        if template not in self._budgets_of:
            pods = self._snapshot.templates[template]
            self._budgets_of[template] = [
                budget
                for budget in self._snapshot.budgets.values()
                if budget.metadata.namespace == pods.namespace
                and selects(budget.spec.selector, pods.labels)
            ]
        return self._budgets_of[template]

    # ------------------------------------------------------------ what the template says

    def _lasting_blocker(self, pod: Template) -> Blocker | None:
        return (
            self._blocked_by_nature(pod)
            or self._blocked_by_policy(pod)
            or self._blocked_by_wish(pod)
            or self._blocked_by_owner(pod)
        )

    def _blocked_by_nature(self, pod: Template) -> Blocker | None:
        if pod.owner is not None and pod.owner.kind == "DaemonSet":
            return Blocker("DaemonSetPod", f"DaemonSet {pod.owner.name} wants it on its node")
        if pod.annotations.mirror or (pod.owner is not None and pod.owner.kind == "Node"):
            return Blocker("StaticPod", "its node runs it from a file")
        if pod.resource_claims:
            return Blocker("ResourceClaims", "it holds devices through resource claims")
        return None

    def _blocked_by_policy(self, pod: Template) -> Blocker | None:
        if pod.namespace in self._policy.excluded_namespaces:
            return Blocker("ExcludedNamespace", f"namespace {pod.namespace} is excluded")
        if pod.priority >= _SYSTEM_PRIORITY:
            name = pod.priority_class_name or f"priority {pod.priority}"
            return Blocker("SystemPod", f"{name} marks it as part of the system")
        selector = self._policy.excluded_pod_selector
        if selector is not None and selects(selector, pod.labels):
            return Blocker("ExcludedBySelector", "the policy's excludedPodSelector matches it")
        return None

    def _blocked_by_wish(self, pod: Template) -> Blocker | None:
        if pod.labels.get(RESCHEDULING) == "disabled":
            return Blocker("ReschedulingDisabled", f"its label {RESCHEDULING} says so")
        if pod.annotations.safe_to_evict == "false":
            return Blocker("NotSafeToEvict", "its annotation safe-to-evict is false")
        if pod.annotations.do_not_disrupt == "true":
            return Blocker("DoNotDisrupt", "its annotation karpenter.sh/do-not-disrupt is true")
        return None

    def _blocked_by_owner(self, pod: Template) -> Blocker | None:
        if pod.owner is None:
            return Blocker("BarePod", "no controller would bring it back")
        if pod.owner.kind == "Job":
            return Blocker("JobPod", f"moving it would start the work of {pod.owner.name} anew")
        if any(volume.host_path is not None for volume in pod.volumes):
            return Blocker("LocalStorage", "it uses a directory of its node (hostPath)")
        if any(volume.empty_dir is not None for volume in pod.volumes):
            return Blocker("LocalStorage", "its emptyDir would be lost")
        return None

    # ------------------------------------------------------------ what the moment says

    def _passing_blocker(self, pod: int, template: int) -> Blocker | None:
        pods = self._snapshot.pods
        if pods.deleting[pod]:
            return Blocker("BeingDeleted", "it is on its way out")
        if pods.node[pod] < 0:
            return Blocker("NotScheduled", "it is on no node yet")
        if pods.phase[pod] != RUNNING:
            return Blocker("NotRunning", "it is not running yet")
        if not pods.ready[pod]:
            return Blocker("NotReady", "it is not Ready, so something is wrong already")
        if self.mode(template) == Mode.EVICT:
            return self._blocked_by_budget(template)
        return None

    def _blocked_by_budget(self, template: int) -> Blocker | None:
        budgets = self.budgets(template)
        if len(budgets) > 1:
            names = ", ".join(budget.metadata.name for budget in budgets)
            return Blocker("SeveralBudgets", f"the API evicts no pod of several budgets ({names})")
        if budgets and budgets[0].status.disruptions_allowed < 1:
            name = budgets[0].metadata.name
            return Blocker("Budget", f"disruption budget {name} allows no disruption now")
        return None

    # ------------------------------------------------------------ whether two copies may run

    def _why_not_handoff(self, pod: Template) -> str | None:
        if pod.owner is None or pod.owner.kind not in _HANDOFF_OWNERS:
            return "its controller cannot adopt a pod made beforehand"
        if pod.annotations.handoff == "never":
            return "its annotation rescheduler.dev/handoff says never"
        if self._has_single_writer_volume(pod):
            return "only one node may attach its volume"
        deployment = self._deployments_by_replica_set.get((pod.namespace, pod.owner.name))
        if deployment is not None and not _allows_surge(deployment):
            return f"Deployment {deployment.metadata.name} allows no second copy"
        return None

    def _has_single_writer_volume(self, pod: Template) -> bool:
        for volume in pod.volumes:
            if volume.persistent_volume_claim is not None:
                key = f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
                claim = self._snapshot.claims.get(key)
                if claim is None or _SINGLE_WRITER.intersection(claim.spec.access_modes):
                    return True
        return False

    @cached_property
    def _deployments_by_replica_set(self) -> dict[tuple[str, str], Deployment]:
        found = {}
        for replica_set in self._snapshot.replica_sets.values():
            metadata = replica_set.metadata
            owner = metadata.controller
            if owner is not None and owner.kind == "Deployment":
                deployment = self._snapshot.deployments.get(f"{metadata.namespace}/{owner.name}")
                if deployment is not None:
                    found[metadata.namespace, metadata.name] = deployment
        return found


def _allows_surge(deployment: Deployment) -> bool:
    strategy = deployment.spec.strategy
    if strategy.type == "Recreate":
        return False
    surge = strategy.rolling_update.max_surge if strategy.rolling_update is not None else None
    return surge not in (0, "0", "0%")
