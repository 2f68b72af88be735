"""Who may be moved, how, where to and how often, by the policy and what pods say."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rescheduler.model.moves import Mode
from rescheduler.planning.plan import Move
from testcluster.client import JsonObject
from tests.planning.promise.generated_cases import (
    CONTROL_PLANE,
    CREATED_LATELY,
    KEPT,
    MAINTENANCE,
    POD_GROUP,
    RESCHEDULING,
    GeneratedCase,
)
from tests.planning.promise.reference_rules import ReferencePod

_LEAVES_OR_BELONGS = {"is being deleted", "is being migrated", "belongs to its node"}
"""Why a pod may stay behind when its group leaves."""
_SYSTEM_PRIORITY = 2_000_000_000
_EXCLUDED_BY_DEFAULT = ["kube-system", "kube-public"]


@dataclass(frozen=True)
class LimitChecks:
    """A case and the moves that are to keep within its limits."""

    case: GeneratedCase
    moves: Sequence[Move]

    def exceeded(self) -> Iterator[str]:
        """Every limit that the moves do not keep, in a sentence."""
        for move in self.moves:
            pod = self._pods[move.pod]
            yield from (f"{move.pod} moves but {why}" for why in self._why_it_stays(pod))
            yield from (
                f"{move.pod} is moved by {move.mode} but {why}"
                for why in self._why_not_so(pod, move.mode)
            )
            yield from (
                f"{move.pod} comes to {move.target} but that {why}"
                for why in _why_closed(self.case.rules.nodes[move.target])
            )
        yield from self._too_many()
        yield from self._too_many_evictions()
        yield from self._torn_groups()

    @property
    def _policy(self) -> dict[str, Any]:
        return self.case.arguments

    @cached_property
    def _pods(self) -> dict[str, ReferencePod]:
        return {each.pod.key: each.pod for each in self.case.placed}

    # ------------------------------------------------------------ who may be moved

    def _why_it_stays(self, pod: ReferencePod) -> Iterator[str]:
        yield from self._excluded(pod)
        yield from self._kept_by_its_owner(pod)
        yield from self._lacking_pods(pod)
        metadata, status = pod.item["metadata"], pod.item["status"]
        if metadata["annotations"].get("karpenter.sh/do-not-disrupt") == "true":
            yield "is not to be disrupted"
        if metadata["annotations"].get("cluster-autoscaler.kubernetes.io/safe-to-evict") == "false":
            yield "is not safe to evict"
        if any("emptyDir" in each for each in pod.item["spec"].get("volumes", ())) and (
            not self._policy.get("allowLocalStorage")
        ):
            yield "would lose its files"
        if pod.is_leaving:
            yield "is being deleted"
        if _condition(status, "Ready")["status"] != "True":
            yield "is not ready"
        if metadata["creationTimestamp"] == CREATED_LATELY and "minPodAge" in self._policy:
            yield "is too young"
        if pod.key in dict(self.case.in_flight):
            yield "is being migrated"

    def _excluded(self, pod: ReferencePod) -> Iterator[str]:
        if pod.namespace in self._policy.get("excludedNamespaces", _EXCLUDED_BY_DEFAULT):
            yield "is in an excluded namespace"
        if "excludedPodSelector" in self._policy and pod.labels.items() >= KEPT.items():
            yield "is excluded by its labels"
        if pod.labels.get(RESCHEDULING) == "disabled":
            yield "says that it stays"
        if pod.item["spec"].get("priority", 0) >= _SYSTEM_PRIORITY:
            yield "is part of the system"

    def _kept_by_its_owner(self, pod: ReferencePod) -> Iterator[str]:
        kind = _owner_kind(pod)
        if kind == "DaemonSet":
            yield "belongs to its node"
        if kind == "Job" and not self._policy.get("allowJobPods"):
            yield "is a Job's"
        if kind is None and not self._policy.get("allowBarePods"):
            yield "has no owner"

    def _lacking_pods(self, pod: ReferencePod) -> Iterator[str]:
        """A workload is left alone unless all its pods are there and Ready; Jobs do not count."""
        if _owner_kind(pod) in (None, "Job", "DaemonSet"):
            return
        siblings = [
            each
            for each in map(ReferencePod, self.case.pod_objects)
            if each.workload == pod.workload and not each.is_leaving
        ]
        ready = sum(_is_ready(each) for each in siblings)
        wanted = max(self._replicas[pod.workload], len(siblings))
        if ready < wanted:
            yield f"{pod.workload} has {ready} of {wanted} pods Ready"

    # ------------------------------------------------------------ how

    def _why_not_so(self, pod: ReferencePod, mode: Mode) -> Iterator[str]:
        kind = _owner_kind(pod)
        if mode == Mode.HANDOFF:
            if kind != "ReplicaSet":
                yield f"its owner is a {kind}"
            if pod.item["metadata"]["annotations"].get("rescheduler.dev/handoff") == "never":
                yield "says never"
            if pod.workload in self._without_a_second_copy:
                yield "allows no second copy"
        if mode == Mode.RECREATE and kind is not None:
            yield f"its owner is a {kind}"
        if mode == Mode.EVICT:
            if kind is None:
                yield "nothing would bring it back"
            if kind != "Job" and self._replicas[pod.workload] == 1:
                yield "there is no other replica"

    @cached_property
    def _without_a_second_copy(self) -> set[str]:
        """Workloads of Deployments that stop a pod before they start another."""
        return {
            f"ReplicaSet/{each['metadata']['namespace']}/{each['metadata']['name']}"
            for each in self.case.other_objects
            if each["kind"] == "Deployment"
            and each["spec"].get("strategy", {}).get("type") == "Recreate"
        }

    @cached_property
    def _replicas(self) -> dict[str, int]:
        return {
            f"{each['kind']}/{each['metadata']['namespace']}/{each['metadata']['name']}": int(
                each["spec"].get("replicas", each["spec"].get("completions", 1))
            )
            for each in self.case.other_objects
        }

    # ------------------------------------------------------------ how often

    def _too_many(self) -> Iterator[str]:
        if len(self.moves) > self._policy["maxReschedulePods"]:
            yield f"{len(self.moves)} moves, more than maxReschedulePods"
        nodes = self.case.rules.nodes
        slots = {name: int(node["status"]["allocatable"]["pods"]) for name, node in nodes.items()}
        pods = Counter(each.pod.namespace for each in self.case.placed)
        moved = [self._pods[move.pod] for move in self.moves]
        yield from self._above(
            "maxMovesPerNode",
            Counter(end for move in self.moves for end in (move.source, move.target)),
            slots,
        )
        yield from self._above(
            "maxMovesPerNamespace", Counter(pod.namespace for pod in moved), pods
        )
        owned = Counter(pod.workload for pod in moved if _owner_kind(pod) is not None)
        yield from self._above("maxMovesPerWorkload", owned, self._replicas)

    def _above(self, option: str, counts: Counter[str], totals: dict[str, int]) -> Iterator[str]:
        limit = self._policy.get(option)
        if limit is None:
            return
        for name, count in counts.items():
            most = limit
            if isinstance(limit, str):
                # A share is rounded down, but something can always move.
                most = max(totals[name] * int(limit.removesuffix("%")) // 100, 1)
            if count > most:
                yield f"{count} moves of {name}, more than {option} {limit}"

    def _too_many_evictions(self) -> Iterator[str]:
        evicted: Counter[str] = Counter()
        for move in self.moves:
            if move.mode == Mode.EVICT:
                pod = self._pods[move.pod]
                budgets = [each for each in self._budgets if _covers(each, pod)]
                if len(budgets) > 1:
                    yield f"{move.pod} is evicted, which {len(budgets)} budgets never allow"
                evicted.update(each["metadata"]["name"] for each in budgets)
        for budget in self._budgets:
            name, allowed = budget["metadata"]["name"], budget["status"]["disruptionsAllowed"]
            if evicted[name] > allowed:
                yield f"{evicted[name]} evictions under budget {name}, which allows {allowed}"

    def _torn_groups(self) -> Iterator[str]:
        """Groups of which some pods leave a node, or nodes under maintenance, and others stay."""
        moved = {move.pod for move in self.moves}
        left = {
            (_group(placed.pod), self._place(placed.node))
            for placed in self.case.placed
            if placed.pod.key in moved and _group(placed.pod) is not None
        }
        for placed in self.case.placed:
            if (
                (_group(placed.pod), self._place(placed.node)) in left
                and placed.pod.key not in moved
                and not _LEAVES_OR_BELONGS.intersection(self._why_it_stays(placed.pod))
            ):
                yield f"{placed.pod.key} is left behind by its group {_group(placed.pod)}"

    def _place(self, node: str) -> str:
        """What members must share to leave together: the node, or its maintenance."""
        labels = self.case.rules.nodes[node]["metadata"]["labels"]
        return MAINTENANCE if labels.get(MAINTENANCE) == "true" else node

    @cached_property
    def _budgets(self) -> list[JsonObject]:
        others = self.case.other_objects
        return [each for each in others if each["kind"] == "PodDisruptionBudget"]


def _why_closed(node: JsonObject) -> Iterator[str]:
    labels = node["metadata"]["labels"]
    if node["spec"].get("unschedulable"):
        yield "is cordoned"
    if _condition(node["status"], "Ready")["status"] != "True":
        yield "is not ready"
    if labels.get(MAINTENANCE) == "true":
        yield "is under maintenance"
    if CONTROL_PLANE in labels:
        yield "is the control plane's"


def _condition(status: JsonObject, kind: str) -> JsonObject:
    found: JsonObject = next(each for each in status["conditions"] if each["type"] == kind)
    return found


def _is_ready(pod: ReferencePod) -> bool:
    conditions = pod.item["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _owner_kind(pod: ReferencePod) -> str | None:
    owners = pod.item["metadata"]["ownerReferences"]
    return owners[0]["kind"] if owners else None


def _group(pod: ReferencePod) -> tuple[str, str] | None:
    return (pod.namespace, pod.labels[POD_GROUP]) if POD_GROUP in pod.labels else None


def _covers(budget: JsonObject, pod: ReferencePod) -> bool:
    selected = budget["spec"]["selector"]["matchLabels"].items() <= pod.labels.items()
    return bool(selected and budget["metadata"]["namespace"] == pod.namespace)
