"""Puts a round into words: why it moved pods, or why it did not. Pure."""

from collections.abc import Mapping, Sequence

from rescheduler.controller.round_cache import Round, RoundAttempt
from rescheduler.planning.plan import BlockedPod, Move
from rescheduler.status.reasons import RoundReason
from rescheduler.status.status_document import (
    MOST_EXAMPLES,
    MOST_LISTED,
    BlockedCount,
    PodReason,
    RequestedMove,
    RoundState,
    cut,
)

NO_MIGRATION = "No Migration could be created"
STALE = "The watches of the cluster were not up to date, so nothing was planned."


def round_state(attempt: RoundAttempt, *, dry_run: bool) -> RoundState:
    """A round, whether or not it came to a plan."""
    if attempt.round is None:
        reason, sentence = without_plan(attempt)
        return RoundState(attempt.started, attempt.ended, attempt.trigger, reason, cut(sentence))
    finished, plan = attempt.round, attempt.round.plan
    reason, sentence = why(finished, dry_run=dry_run)
    return RoundState(
        started_at=attempt.started,
        ended_at=attempt.ended,
        trigger=attempt.trigger,
        reason=reason,
        sentence=cut(sentence),
        is_unchanged=attempt.is_unchanged,
        planned=len(plan.moves),
        requested=len(finished.requested),
        moves=tuple(requested_move(move) for move in finished.requested[:MOST_LISTED]),
        skipped=len(finished.skipped) + len(finished.not_created),
        skipped_moves=first_of(not_requested(finished)),
        blocked=len(plan.blocked),
        blocked_by=blocked_counts(plan.blocked),
        overloaded=len(plan.overloaded),
        overloaded_nodes=tuple(plan.overloaded[:MOST_LISTED]),
        unreadable=len(plan.unreadable),
    )


def without_plan(attempt: RoundAttempt) -> tuple[str, str]:
    """Why a round has no plan: the word and the sentence."""
    if attempt.error:
        return RoundReason.ROUND_FAILED, f"An error ended the round: {attempt.error}"
    return RoundReason.STALE_VIEW, STALE


def why(finished: Round, *, dry_run: bool) -> tuple[str, str]:
    """Why a round moved or did not: the word and the sentence."""
    plan, requested = finished.plan, len(finished.requested)
    if not plan.moves:
        return plan.idle_reason, plan.summary
    found = f"A plan of {counted(len(plan.moves), 'move')} was made"
    if requested and dry_run:
        return RoundReason.DRY_RUN, f"{found}. Nothing was requested, because this is a dry run."
    refused = refusals(finished)
    if requested:
        later = len(plan.moves) - requested - len(finished.not_created)
        rest = "; others follow when these are finished" if later else ""
        were = "was" if requested == 1 else "were"
        text = f"{found}, and {counted(requested, 'move')} {were} requested{rest}.{refused}"
        return RoundReason.MOVES_REQUESTED, text
    if refused:
        return RoundReason.MOVES_REFUSED, f"{found}.{refused}"
    first = next(iter(finished.skipped.values()))
    return RoundReason.MOVES_SKIPPED, f"{found}, but none was requested: {first}."


def refusals(finished: Round) -> str:
    """For how many moves no Migration could be created, and the first answer; empty for none."""
    if not finished.not_created:
        return ""
    first = next(iter(finished.not_created.values())).rstrip(".")
    return f" {NO_MIGRATION} for {counted(len(finished.not_created), 'move')}: {first}."


def not_requested(finished: Round) -> dict[str, str]:
    """By pod: why a planned move was not requested. What the server refused comes first."""
    refused = {pod: f"{NO_MIGRATION}: {answer}" for pod, answer in finished.not_created.items()}
    return refused | finished.skipped


def counted(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def requested_move(move: Move) -> RequestedMove:
    """A move as it is listed."""
    names = move.pod, move.source, move.target
    return RequestedMove(*names, str(move.mode), move.strategy, cut(move.reason))


def first_of(reasons: Mapping[str, str]) -> tuple[PodReason, ...]:
    """The first pods, and why they were not moved."""
    return tuple(PodReason(pod, cut(why)) for pod, why in list(reasons.items())[:MOST_LISTED])


def blocked_counts(blocked: Sequence[BlockedPod]) -> tuple[BlockedCount, ...]:
    """How many pods each blocker keeps, the most frequent first."""
    groups: dict[str, list[BlockedPod]] = {}
    for pod in blocked:
        groups.setdefault(pod.blocker, []).append(pod)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return tuple(
        BlockedCount(
            name,
            len(pods),
            tuple(PodReason(pod.pod, cut(pod.detail)) for pod in pods[:MOST_EXAMPLES]),
        )
        for name, pods in ordered[:MOST_LISTED]
    )
