"""The view of the status: readable at any width, with colors and without, whatever is missing."""

import io
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from rich.console import Console

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.views.live_screen import live_screen
from rescheduler.cli.views.status_view import (
    LONG_STEP_SECONDS,
    Room,
    length,
    rendered,
    show_status,
)
from rescheduler.status.status_document import (
    VERSION,
    BlockedCount,
    ClusterStatus,
    FailingObject,
    KindState,
    LeaseState,
    MigrationState,
    MigrationSummary,
    NodeSummary,
    NodeUse,
    Note,
    PodReason,
    QueueState,
    ReplicaStatus,
    RequestedMove,
    ReservationSummary,
    Role,
    RoomReservation,
    RoundState,
    SyncState,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROUND = RoundState(
    NOW - timedelta(seconds=42),
    NOW - timedelta(seconds=40),
    "the interval was over",
    "MovesRequested",
    "A plan of 9 moves was made, and 7 moves were requested.",
    planned=9,
    requested=7,
    moves=(RequestedMove("shop/cart-1", "node-a", "node-b", "Handoff", "S", "node-a is full"),),
    skipped=2,
    skipped_moves=(PodReason("shop/cart-9", "maxReschedulePods (7) moves are not finished"),),
    blocked=12,
    blocked_by=(
        BlockedCount("Budget", 11, (PodReason("shop/db-0", "budget db allows none"),)),
        BlockedCount("BarePod", 1, (PodReason("shop/alone", "no controller"),)),
    ),
    overloaded=1,
    overloaded_nodes=("node-a",),
)
NODES = NodeSummary(
    count=2,
    cordoned=1,
    cpu=(0,) * 11,
    memory=(0,) * 11,
    fullest=(NodeUse("node-a", 0.95, 0.5), NodeUse("node-b", 0.1, 0.2, is_cordoned=True)),
)
LEADER = ReplicaStatus(
    version=VERSION,
    program="1.0",
    role=Role.LEADER,
    time=NOW,
    sync=SyncState(True, 3.0),
    replica="leader_1",
    leader="leader_1",
    lease="ns/lease",
    round=ROUND,
    next_round_at=NOW + timedelta(seconds=20),
    queue=QueueState(4, 2, 1, 1, (FailingObject("Migration", "shop/x", "422: no"),)),
    nodes=NODES,
)
MIGRATIONS = MigrationSummary(
    {"InProgress": 2, "Pending": 1, "Failed": 1, "Completed": 40},
    (
        MigrationState(
            "shop/m1", "shop/cart-1", "node-b", "InProgress", "node-a", "Starting", step_seconds=5
        ),
        MigrationState(
            "shop/m2",
            "shop/cart-2",
            "node-b",
            "InProgress",
            "node-a",
            "HandingOver",
            step_seconds=1,
        ),
        MigrationState(
            "shop/m3", "shop/cart-3", "node-b", "Pending", reason="Paused", message="so"
        ),
        MigrationState(
            "shop/m4", "shop/cart-4", "node-b", "Failed", reason="Failed", message="Oh."
        ),
    ),
)
WHOLE = ClusterStatus(
    version=VERSION,
    time=NOW,
    lease=LeaseState("ns/lease", "leader_1", 1.5, 3),
    replica=LEADER,
    migrations=MIGRATIONS,
    outcomes={"Landed": 9, "Failed": 1},
    nodes=NODES,
    reservations=ReservationSummary(3, (RoomReservation("shop/new", "node-b", 250, 2**28),)),
    notes=(Note("StandbyAnswered", "Somebody else leads."),),
)


def drawn(
    status: ClusterStatus, width: int = 100, *, encoding: str = "utf-8", color: bool = False
) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    console = Console(file=file, width=width, highlight=False, markup=False, force_terminal=color)
    show_status(status, console)
    return raw.getvalue().decode(encoding)


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_names_and_reasons_are_neither_markup_nor_control_characters() -> None:
    name, reason = "[red]node[/red]\x1b[31m", "[bold]Why[/bold]\x1b[31m"
    round = msgspec.structs.replace(
        ROUND, reason=reason, blocked_by=(BlockedCount(reason, 12, ()),)
    )
    fullest = (NodeUse(name, 0.5, 0.5), *NODES.fullest)
    status = msgspec.structs.replace(
        WHOLE,
        lease=LeaseState(name),
        replica=msgspec.structs.replace(LEADER, round=round),
        nodes=msgspec.structs.replace(NODES, count=3, fullest=fullest),
    )
    file = io.StringIO()
    show_status(status, Console(file=file, width=120, highlight=False, markup=True))
    text = file.getvalue()
    assert "\x1b" not in text
    assert f"Lease {escaped(name)}" in text
    assert f"({escaped(reason)})" in text
    assert f"12  {escaped(reason)}" in text
    assert f"\n{escaped(name)}  " in text


def test_who_leads_and_the_last_round_come_first() -> None:
    lines = lines_of(drawn(WHOLE))
    assert lines[:7] == [
        "Leader leader_1, Lease ns/lease, renewed 2 s ago",
        "Cluster up to date, last confirmed 3 s ago",
        "Last round 40 s ago, because the interval was over; it took 2 s",
        "Result A plan of 9 moves was made, and 7 moves were requested. (MovesRequested)",
        "Next round in 20 s, or when something changes that must not wait",
        "Queue 2 in work, 4 waiting for a worker, 1 failed the last time",
        "Migration shop/x: 422: no",
    ]


def test_migrations_have_bars_that_grow_with_their_steps() -> None:
    lines = drawn(WHOLE).splitlines()
    (title,) = [line for line in lines if line.startswith("Migrations: ")]
    assert title.strip() == "Migrations: 2 in progress, 1 waiting, 40 completed, 1 failed"
    starting, handing, paused = (
        next(line for line in lines if f" shop/cart-{number} " in f"{line} ")
        for number in (1, 2, 3)
    )
    assert starting.count("█") < handing.count("█")
    assert paused.count("█") == 0
    assert starting.split()[1:] == ["starting", "5", "s", "shop/cart-1", "node-a", "→", "node-b"]
    assert paused.split() == ["Paused", "shop/cart-3", "→", "node-b"]
    assert "  shop/cart-4: Oh." in drawn(WHOLE)
    assert "In the last 24 hours: 10 moves: 9 landed, 1 failed" in drawn(WHOLE)


def test_a_migration_whose_step_takes_long_shows_what_it_waits_for() -> None:
    def shown(step_seconds: float) -> str:
        state = MigrationState(
            "shop/m1",
            "shop/cart-1",
            "node-b",
            "InProgress",
            "node-a",
            "Landing",
            message="waiting: pod cart-1 does not stop",
            step_seconds=step_seconds,
        )
        migrations = MigrationSummary({"InProgress": 1}, (state,))
        return drawn(msgspec.structs.replace(WHOLE, migrations=migrations))

    assert "waiting: pod cart-1 does not stop" in shown(LONG_STEP_SECONDS)
    assert "waiting: pod" not in shown(LONG_STEP_SECONDS - 1)


def test_what_is_blocked_skipped_and_kept_is_counted() -> None:
    lines = lines_of(drawn(WHOLE))
    assert "11 Budget such as shop/db-0: budget db allows none" in lines
    assert "1 BarePod shop/alone: no controller" in lines
    assert "Planned, not requested: 2" in lines
    assert "and 1 more" in lines
    assert "Room kept for pods on their way: 3" in lines
    assert "shop/new on node-b: 0.25 CPU, 256 MiB" in lines
    assert "Nodes that pods should leave: node-a" in lines


@pytest.mark.parametrize("width", [80, 100, 200])
def test_where_a_pod_goes_is_shown_also_if_its_name_is_too_long(width: int) -> None:
    pod = "a-namespace/a-deployment-with-a-long-name-6bf885d74-scx87"
    state = MigrationState("m", pod, "worker-with-a-name-1", "InProgress", "worker-2", "Starting")
    migrations = MigrationSummary({"InProgress": 1}, (state,))
    text = drawn(msgspec.structs.replace(WHOLE, migrations=migrations), width)
    (line,) = [line for line in text.splitlines() if "scx87" in line]
    assert line.rstrip().endswith("worker-2 → worker-with-a-name-1")
    assert (pod in line) == (width == 200)


def test_room_that_only_the_extender_keeps_is_counted() -> None:
    kept = ReservationSummary(for_replacements=2)
    lines = lines_of(drawn(msgspec.structs.replace(WHOLE, reservations=kept)))
    assert "Room kept for pods on their way: 0, and by the extender alone for others: 2" in lines


def test_nodes_have_bars_and_marks() -> None:
    lines = drawn(WHOLE).splitlines()
    fullest = next(line for line in lines if line.startswith("node-a "))
    emptiest = next(line for line in lines if line.startswith("node-b "))
    assert fullest.count("█") > emptiest.count("█") > 0
    assert "95%" in fullest
    assert emptiest.rstrip().endswith("cordoned")


def test_many_nodes_are_a_histogram() -> None:
    cpu, memory = (0, 3, *[0] * 9), (0, 0, 1000, *[0] * 8)
    nodes = NodeSummary(1003, 5, 0, cpu, memory, NODES.fullest)
    lines = lines_of(drawn(ClusterStatus(VERSION, NOW, nodes=nodes)))
    assert "Nodes: 1,003, 5 not Ready (requests)" in lines
    assert any(line.startswith("10-20 %") and line.endswith(" 3") for line in lines)
    assert any(line.startswith("20-30 %") and line.endswith(" 1,000") for line in lines)


def test_notes_are_the_last_that_is_printed_and_near_the_top_of_a_screen() -> None:
    assert lines_of(drawn(WHOLE))[-1] == "StandbyAnswered: Somebody else leads."
    console = Console(file=io.StringIO(), width=100, height=24)
    console.print(rendered(WHOLE, Room(console, is_live=True)))
    screen = lines_of(console.file.getvalue())  # type: ignore[attr-defined]
    assert screen.index("StandbyAnswered: Somebody else leads.") < 10


def test_a_replica_that_does_not_know_the_cluster_says_why() -> None:
    sync = SyncState(False, None, "the cluster is not loaded yet", (KindState("Pod", "403"),))
    replica = ReplicaStatus(VERSION, "1.0", Role.LEADER, NOW, sync)
    text = " ".join(drawn(ClusterStatus(VERSION, NOW, replica=replica)).split())
    assert "the cluster is not loaded yet (NotLoaded)" in text
    assert "Pod is not followed: 403 (KindNotFollowed)" in text
    assert "none yet since it began to lead (NoRoundYet)" in text
    assert "there is no leader election" in text


@pytest.mark.parametrize("role", Role)
def test_every_role_has_words(role: Role) -> None:
    replica = ReplicaStatus(VERSION, "1.0", role, NOW, SyncState(True, 1.0), replica="me_1")
    text = drawn(ClusterStatus(VERSION, NOW, LeaseState("ns/lease"), replica))
    leads_nobody = "a dry run elects no leader" if role == Role.PLANNER else "Lease ns/lease"
    assert f"nobody{':' if role == Role.PLANNER else ','} {leads_nobody}" in text
    assert ("Asked" in text) is (role != Role.LEADER)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, drawn(WHOLE, width).splitlines())) <= width


def test_colors_are_for_terminals_and_plain_letters_for_old_ones() -> None:
    assert "\x1b[" not in drawn(WHOLE)
    assert "\x1b[" in drawn(WHOLE, color=True)
    assert "node-a -> node-b" in drawn(WHOLE, encoding="ascii")


def test_names_of_tenants_cannot_draw_on_the_screen() -> None:
    evil = "shop/\x1b[2Jx\nLeader  me\u202e[bold]"
    migrations = MigrationSummary(
        {"Pending": 1, "Failed": 1},
        (
            MigrationState(evil, evil, evil, "Pending", evil, reason="Waiting", message=evil),
            MigrationState(evil, evil, evil, "Failed", evil, evil, evil, "Failed", evil),
        ),
    )
    pods = (PodReason(evil, evil),)
    last = RoundState(
        NOW,
        NOW,
        evil,
        "AllBlocked",
        evil,
        requested=1,
        moves=(RequestedMove(evil, evil, evil, "Evict", evil, evil),),
        skipped=1,
        skipped_moves=pods,
        blocked=1,
        blocked_by=(BlockedCount(evil, 1, pods),),
        overloaded=1,
        overloaded_nodes=(evil,),
    )
    status = ClusterStatus(
        VERSION,
        NOW,
        LeaseState("ns/lease", evil),
        ReplicaStatus(
            VERSION,
            evil,
            Role.STANDBY,
            NOW,
            SyncState(True, 1.0, evil, (KindState(evil, evil),)),
            evil,
            round=last,
        ),
        migrations=migrations,
        nodes=NodeSummary(1, fullest=(NodeUse(evil, 0.1, 0.1),)),
        reservations=ReservationSummary(1, (RoomReservation(evil, evil, 1, 1),)),
        notes=(Note("NotReached", evil),),
    )
    text = drawn(status)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(line.startswith("Leader  me") for line in text.splitlines())
    assert "[bold]" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "less than 1 s"), (0.2, "less than 1 s"), (99, "99 s"), (240, "4 min"), (7200, "2 h")],
)
def test_times_are_rounded(seconds: float, text: str) -> None:
    assert length(seconds) == text


def test_without_a_terminal_each_drawing_is_printed_below_the_last() -> None:
    console = Console(file=io.StringIO(), width=80)
    with live_screen(console) as draw:
        draw("one")
        draw("two")
    assert console.file.getvalue() == "one\n\ntwo\n\n"  # type: ignore[attr-defined]
