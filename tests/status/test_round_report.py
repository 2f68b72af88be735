"""A round says in a word and a sentence why it moved pods, or why it did not."""

from datetime import UTC, datetime, timedelta

import pytest

from rescheduler.controller.round_cache import Round, RoundAttempt, RoundTrigger
from rescheduler.model.moves import Mode
from rescheduler.planning.plan import Assessment, BlockedPod, Move, NoMovesReason, Plan
from rescheduler.status.round_report import round_state, why
from rescheduler.status.status_document import MOST_EXAMPLES, MOST_LISTED

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTHING = Assessment({}, 0, 0.0, {})


def move(number: int = 0) -> Move:
    pod = f"shop/cart-{number}"
    return Move(pod, "a", "b", "LoadBalancing", Mode.HANDOFF, "a is full", 1.0)


def plan_of(
    *moves: Move,
    summary: str = "",
    idle_reason: NoMovesReason = NoMovesReason.NONE,
    blocked: tuple[BlockedPod, ...] = (),
) -> Plan:
    return Plan(moves, blocked, NOTHING, NOTHING, (), summary, idle_reason=idle_reason)


MOVES = (move(0), move(1), move(2))
LIMIT = {each.pod: "maxReschedulePods (1) moves are not finished" for each in MOVES}


@pytest.mark.parametrize(
    ("finished", "dry_run", "reason", "sentence"),
    [
        (
            Round(plan_of(*MOVES), MOVES, {}),
            False,
            "MovesRequested",
            "A plan of 3 moves was made, and 3 moves were requested.",
        ),
        (
            Round(plan_of(*MOVES), MOVES[:1], {}),
            False,
            "MovesRequested",
            "A plan of 3 moves was made, and 1 move was requested; "
            "others follow when these are finished.",
        ),
        (
            Round(plan_of(*MOVES), MOVES, {}),
            True,
            "DryRun",
            "A plan of 3 moves was made. Nothing was requested, because this is a dry run.",
        ),
        (
            Round(plan_of(*MOVES), (), LIMIT),
            False,
            "MovesSkipped",
            "A plan of 3 moves was made, but none was requested: "
            "maxReschedulePods (1) moves are not finished.",
        ),
        (
            Round(plan_of(move()), (), {}, not_created={"shop/cart-0": "a policy says no"}),
            False,
            "MovesRefused",
            "A plan of 1 move was made. No Migration could be created for 1 move: "
            "a policy says no.",
        ),
        (
            Round(plan_of(*MOVES), (), LIMIT, not_created={"shop/cart-0": "a policy says no"}),
            False,
            "MovesRefused",
            "A plan of 3 moves was made. No Migration could be created for 1 move: "
            "a policy says no.",
        ),
        (
            Round(plan_of(*MOVES), MOVES[:1], {}, not_created={"shop/cart-1": "a policy says no"}),
            False,
            "MovesRequested",
            "A plan of 3 moves was made, and 1 move was requested; "
            "others follow when these are finished. "
            "No Migration could be created for 1 move: a policy says no.",
        ),
        (
            Round(plan_of(*MOVES), MOVES[:2], {}, not_created={"shop/cart-2": "no."}),
            False,
            "MovesRequested",
            "A plan of 3 moves was made, and 2 moves were requested. "
            "No Migration could be created for 1 move: no.",
        ),
        (
            Round(plan_of(summary="All.", idle_reason=NoMovesReason.ALL_BLOCKED), (), {}),
            False,
            "AllBlocked",
            "All.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_a_round_with_a_plan_says_what_came_of_it(
    finished: Round, dry_run: bool, reason: str, sentence: str
) -> None:
    assert why(finished, dry_run=dry_run) == (reason, sentence)


@pytest.mark.parametrize(
    ("error", "reason"), [("GET /x: no route", "RoundFailed"), ("", "StaleView")]
)
def test_a_round_without_a_plan_says_what_kept_it_from_one(error: str, reason: str) -> None:
    attempt = RoundAttempt(RoundTrigger.INTERVAL, NOW, NOW + timedelta(seconds=1), None, error)
    state = round_state(attempt, dry_run=False)
    assert state.reason == reason
    assert error in state.sentence
    assert state.trigger == "the interval was over"


def test_moves_without_a_migration_are_listed_with_the_answer_of_the_server() -> None:
    finished = Round(
        plan_of(*MOVES), MOVES[:1], {MOVES[1].pod: "limit"}, not_created={MOVES[2].pod: "no"}
    )
    state = round_state(RoundAttempt(RoundTrigger.START, NOW, NOW, finished), dry_run=False)
    assert state.skipped == 2
    assert {each.pod: each.detail for each in state.skipped_moves} == {
        "shop/cart-1": "limit",
        "shop/cart-2": "No Migration could be created: no",
    }


def test_blocked_pods_are_counted_by_reason_with_a_few_examples() -> None:
    blocked = (
        *(BlockedPod(f"shop/db-{number}", "Budget", "x" * 10_000) for number in range(50)),
        BlockedPod("shop/one", "BarePod", "no controller would recreate it"),
    )
    plan = plan_of(*(move(number) for number in range(500)), blocked=blocked)
    skipped = {each.pod: "y" * 10_000 for each in plan.moves}
    attempt = RoundAttempt(RoundTrigger.START, NOW, NOW, Round(plan, plan.moves, skipped))
    state = round_state(attempt, dry_run=False)
    assert [(each.reason, each.count) for each in state.blocked_by] == [
        ("Budget", 50),
        ("BarePod", 1),
    ]
    assert len(state.blocked_by[0].examples) == MOST_EXAMPLES
    assert (state.requested, len(state.moves)) == (500, MOST_LISTED)
    assert (state.skipped, len(state.skipped_moves)) == (500, MOST_LISTED)
    texts = [each.detail for each in (*state.skipped_moves, *state.blocked_by[0].examples)]
    assert max(map(len, texts)) <= 500
