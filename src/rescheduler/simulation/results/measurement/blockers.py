"""Why pods stayed where they were: the blockers in the plans of all rounds, counted."""

import re
from collections import Counter
from collections.abc import Iterable

from rescheduler.planning.plan import BlockedPod, Plan
from rescheduler.simulation.results.result import BlockerSummary, IdleReason, RoundCounts

MAX_REASONS = 5
NUMBERS = re.compile(r"\d+(?:[.,]\d+)*")

MEANINGS = {
    "BarePod": "no controller would recreate the pod",
    "BeingDeleted": "it was being deleted already",
    "BeingMigrated": "it was being moved already",
    "Budget": "its disruption budget allows no eviction, and it cannot be handed over",
    "DoNotDisrupt": "its annotation asks not to be disrupted",
    "ExcludedBySelector": "the policy excludes pods with its labels",
    "ExcludedNamespace": "the policy excludes its namespace",
    "JobPod": "it belongs to a Job, which would have to restart its work",
    "LocalStorage": "it keeps data on its node, which would be lost",
    "MoveLimit": "the round had as many moves as the policy allows",
    "MoveUnderWay": "a move was under way that counts for the same spread or affinity rules",
    "NamespaceLimit": "the policy lets only so many pods of a namespace move at once",
    "NoGain": "nothing would have been gained that is worth a move",
    "NoNodeFits": "no other node accepted it",
    "NodeLimit": "the policy lets only so many pods leave or reach a node at once",
    "NodeMissing": "its node was not known",
    "NotReady": "it was not Ready, so something was wrong with it already",
    "NotRunning": "it was not running yet",
    "NotSafeToEvict": "its annotation says that it is not safe to evict",
    "NotScheduled": "it had no node yet",
    "OneAtATime": "another pod of its workload was evicted, and one goes at a time",
    "OwnerGone": "its owner is gone or being deleted, so nothing would replace it",
    "PodGroup": "its pod group leaves together, and not all of it could",
    "RecentlyMoved": "an earlier move of it had failed or come back",
    "ReschedulingDisabled": "its label disables rescheduling",
    "ResourceClaims": "it uses devices through resource claims, which are not supported",
    "RolloutStuck": "its Deployment was stuck in a rollout",
    "SeveralBudgets": "several budgets cover it, and the API evicts no such pod",
    "SingleReplica": "it is the only one of its workload and cannot be handed over",
    "SystemPod": "it is part of the system",
    "TooYoung": "it was younger than the policy's minPodAge",
    "UnreadableObject": "an object that may protect it could not be decoded",
    "WorkloadLimit": "the policy lets only so many pods of a workload move at once",
    "WorkloadNotReady": "its workload had a pod that was missing or not Ready",
    "WorkloadWaits": "an earlier move of its workload had not started yet",
}


class BlockerCounts:
    """Counts the blockers in plans, and why rounds had no moves."""

    def __init__(self) -> None:
        self._pods: dict[str, set[str]] = {}
        self._rounds: Counter[str] = Counter()
        self._examples: dict[str, BlockedPod] = {}
        # By the reason without its numbers, which change with every round.
        self._idle: Counter[str] = Counter()
        self._idle_text: dict[str, str] = {}
        self._total = 0
        self._with_moves = 0

    def add(self, plan: Plan) -> None:
        """Count the plan of one round."""
        self._total += 1
        self._with_moves += bool(plan.moves)
        if not plan.moves:
            reason = NUMBERS.sub("", plan.summary)
            self._idle[reason] += 1
            self._idle_text[reason] = plan.summary
        for name, pods in _by_blocker(plan.blocked):
            self._rounds[name] += 1
            self._examples.setdefault(name, pods[0])
            self._pods.setdefault(name, set()).update(pod.pod for pod in pods)

    def blocked(self) -> tuple[BlockerSummary, ...]:
        """The blockers, those that kept most pods first."""
        return tuple(
            BlockerSummary(
                blocker=name,
                meaning=MEANINGS.get(name, self._examples[name].detail),
                pods=len(pods),
                rounds=self._rounds[name],
                example=self._examples[name].pod,
                detail=self._examples[name].detail,
            )
            for name, pods in sorted(self._pods.items(), key=lambda item: (-len(item[1]), item[0]))
        )

    def rounds(self) -> RoundCounts:
        """How many rounds there were, and why those without moves had none."""
        frequent = self._idle.most_common(MAX_REASONS)
        reasons = tuple(IdleReason(self._idle_text[reason], count) for reason, count in frequent)
        return RoundCounts(total=self._total, with_moves=self._with_moves, idle_reasons=reasons)


def _by_blocker(pods: Iterable[BlockedPod]) -> list[tuple[str, list[BlockedPod]]]:
    groups: dict[str, list[BlockedPod]] = {}
    for pod in pods:
        groups.setdefault(pod.blocker, []).append(pod)
    return list(groups.items())
