"""Which moves of a plan are requested at once."""

from rescheduler.controller.move_requests import first_moves, first_wave, later_moves
from rescheduler.model.moves import Mode
from rescheduler.planning.context import LaterMove
from rescheduler.planning.plan import Assessment, Move, Plan

NOTHING = Assessment(utilization={}, nodes_in_use=0, objective=0.0, per_node={})


def move(pod: str, source: str, target: str, wave: int) -> Move:
    return Move(
        pod=pod,
        source=source,
        target=target,
        strategy="NodeMaintenance",
        mode=Mode.HANDOFF,
        reason="",
        gain=1.0,
        wave=wave,
    )


PARKED, OTHER = move("shop/a", "x", "parking", 0), move("shop/b", "y", "x", 1)
ONWARD = move("shop/a", "parking", "y", 2)
PLAN = Plan(
    moves=(PARKED, OTHER, ONWARD),
    blocked=(),
    before=NOTHING,
    after=NOTHING,
    overloaded=(),
    summary="",
)


def test_a_parked_pod_is_requested_once() -> None:
    assert first_moves(PLAN.moves) == [PARKED, OTHER]


def test_what_comes_later_is_kept_for_pods_that_have_not_moved() -> None:
    assert first_wave(PLAN.moves) == [PARKED]
    assert later_moves(PLAN) == (LaterMove("shop/b", "x"),)
