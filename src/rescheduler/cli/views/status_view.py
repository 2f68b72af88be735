"""The status of the rescheduler: who leads, the last round, migrations, what is blocked, nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.views.utilization_chart import (
    BUCKETS,
    MOST_BARS,
    bar,
    blocks,
    bucket_name,
    count_bar,
    short_names,
)
from rescheduler.migration.migration_object import Phase, Step
from rescheduler.status.reasons import MigrationReason, RoundReason, ViewReason
from rescheduler.status.status_document import (
    BlockedCount,
    ClusterStatus,
    LeaseState,
    MigrationState,
    MigrationSummary,
    NodeSummary,
    Note,
    PodReason,
    QueueState,
    ReplicaStatus,
    ReservationSummary,
    Role,
    RoundState,
)

NARROW = 60
MOST_MIGRATIONS = 15
MOST_LINES = 5
STEP_BAR = 12
# From then on, what a migration under way waits for is shown, too.
LONG_STEP_SECONDS = 30
SHORTEST_NAME, ENDING = 16, 8
ROLES = {
    Role.LEADER: "leads",
    Role.STANDBY: "waits to take over",
    Role.PLANNER: "plans only: it moves nothing (dry run)",
    Role.EXTENDER: "serves the extender only",
}
PROGRESS = {
    Step.NONE: 0.0,
    Step.STARTING: 0.3,
    Step.EVICTING: 0.3,
    Step.HANDING_OVER: 0.7,
    Step.LANDING: 0.7,
    Step.UNDOING: 0.3,
}
"""How far a migration is in each of its steps. Handoffs and evictions have two each."""
STEP_WORDS = {
    Step.STARTING: "starting",
    Step.HANDING_OVER: "handing over",
    Step.EVICTING: "evicting",
    Step.LANDING: "landing",
    Step.UNDOING: "undoing",
}
OUTCOME_WORDS = {
    "Landed": "landed",
    "Elsewhere": "elsewhere",
    "CameBack": "came back",
    "Failed": "failed",
}
BAD_RESULTS = (RoundReason.ROUND_FAILED, RoundReason.STALE_VIEW, RoundReason.MOVES_REFUSED)
MIB = 1024 * 1024


@dataclass(frozen=True)
class Room:
    """How much fits: everything if it is printed once, less if a terminal is drawn again."""

    console: Console
    is_live: bool = False

    def lines(self, most: int) -> int:
        """How many lines a list may have, of which `most` are enough."""
        return min(most, max(3, self.console.height // 8)) if self.is_live else most

    @property
    def arrow(self) -> str:
        """Between two nodes."""
        return "->" if self.console.options.ascii_only else "→"


def show_status(status: ClusterStatus, console: Console) -> None:
    """Print the status once."""
    console.print(rendered(status, Room(console)))


def rendered(status: ClusterStatus, room: Room) -> RenderableType:
    """All parts that have something to show, with lines between them."""
    parts: list[RenderableType] = []
    for part in parts_of(status, room):
        parts += [*([Text()] if parts else []), part]
    return Group(*parts)


def parts_of(status: ClusterStatus, room: Room) -> Iterator[RenderableType]:
    """The parts that have something to show.

    What is missing or wrong stands where it is seen: at the end of what is printed, and at the
    beginning of a screen, whose end may not fit.
    """
    yield facts(status)
    if status.notes and room.is_live:
        yield notes_part(status.notes)
    if status.migrations is not None:
        yield migrations_part(status.migrations, status.outcomes or {}, room)
    if status.replica is not None and status.replica.round is not None:
        yield from round_parts(status.replica.round, room)
    if (found := status.reservations) is not None and (found.count or found.for_replacements):
        yield reservations_part(found, room)
    if status.nodes is not None and status.nodes.count:
        yield nodes_part(status.nodes, room)
    if status.notes and not room.is_live:
        yield notes_part(status.notes)


def heading(text: str) -> Text:
    """The title of a part."""
    return Text(text, style="bold")


# ---------------------------------------------------------------- who, and when


def facts(status: ClusterStatus) -> Table:
    """The leader, how well it knows the cluster, and its rounds."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_row("Leader", leader_text(status.lease, status.replica))
    replica = status.replica
    if replica is None:
        return table
    if replica.role != Role.LEADER:
        name = f"{replica.replica} " if replica.replica else "it "
        table.add_row("Asked", Text(escaped(f"{name}{ROLES[replica.role]}")))
    table.add_row("Cluster", sync_text(replica))
    if replica.policy_problem:
        table.add_row("Policy", policy_text(replica.policy_problem))
    if replica.role in (Role.LEADER, Role.PLANNER):
        for name, text in round_facts(replica, status.time):
            table.add_row(name, text)
    return table


def leader_text(lease: LeaseState | None, replica: ReplicaStatus | None) -> Text:
    """Who leads."""
    if replica is not None and replica.role == Role.PLANNER:
        return Text("nobody: a dry run elects no leader")
    if lease is None:
        if replica is not None and replica.leader:
            return Text(escaped(f"{replica.leader}, Lease {replica.lease}"))
        if replica is not None and replica.role == Role.LEADER:
            return Text("the replica that was asked; there is no leader election")
        return Text("not known", style="dim")
    if not lease.holder:
        return Text(escaped(f"nobody, Lease {lease.key}"), style="red")
    age = lease.renewed_seconds_ago
    renewed = "" if age is None else f", renewed {length(age)} ago"
    return Text(escaped(f"{lease.holder}, Lease {lease.key}{renewed}"))


def sync_text(replica: ReplicaStatus) -> Text:
    """How well the replica knows the cluster."""
    sync = replica.sync
    if sync.problem:
        reason = RoundReason.STALE_VIEW if sync.is_loaded else ViewReason.NOT_LOADED
        text = Text.assemble((escaped(sync.problem), "red"), (f" ({reason})", "dim"))
    else:
        age = "" if sync.age_seconds is None else f", last confirmed {length(sync.age_seconds)} ago"
        text = Text(f"up to date{age}")
    for kind in sync.failing:
        text.append("\n")
        text.append(escaped(f"{kind.kind} is not followed: {kind.error}"), style="yellow")
        text.append(f" ({ViewReason.KIND_NOT_FOLLOWED})", style="dim")
    return text


def policy_text(problem: str) -> Text:
    """That the policy in use is not the one in the file."""
    in_use = "the last valid one is in use, for the one in the file is not valid: "
    return Text(escaped(f"{in_use}{problem}"), style="red")


def round_facts(replica: ReplicaStatus, now: datetime) -> Iterator[tuple[str, Text]]:
    """The last round and the next one."""
    last = replica.round
    if last is None:
        why = f" ({RoundReason.NO_ROUND_YET})"
        yield "Last round", Text.assemble("none yet since it began to lead", (why, "dim"))
    else:
        ago = length((now - last.ended_at).total_seconds())
        took = length((last.ended_at - last.started_at).total_seconds())
        yield (
            "Last round",
            Text(escaped(f"{ago} ago, because {last.trigger}; it took {took}")),
        )
        yield "Result", result_text(last)
    if replica.next_round_at is not None:
        left = (replica.next_round_at - now).total_seconds()
        soon = f"in {length(left)}" if left > 0 else "now"
        yield "Next round", Text(f"{soon}, or when something changes that must not wait")
    queue = replica.queue
    if queue is not None and (queue.ready or queue.processing or queue.failing):
        yield "Queue", queue_text(queue)


def queue_text(queue: QueueState) -> Text:
    """How much there is to do, and what goes wrong."""
    busy = f"{queue.processing} in work, {queue.ready} waiting for a worker"
    text = Text(f"{busy}, {queue.failing} failed the last time")
    for each in queue.failing_objects[:MOST_LINES]:
        text.append("\n")
        text.append(escaped(f"{each.kind} {each.key}: {each.error}"), style="yellow")
    return text


def result_text(last: RoundState) -> Text:
    """Why the round moved or did not."""
    style = "red" if last.reason in BAD_RESULTS else ""
    text = Text(escaped(last.sentence), style=style)
    text.append(escaped(f" ({last.reason})"), style="dim")
    if last.is_unchanged:
        text.append(" Nothing has changed since the round before.", style="dim")
    return text


# ---------------------------------------------------------------- the last round


def round_parts(last: RoundState, room: Room) -> Iterator[RenderableType]:
    """What the last round found blocked, skipped, and requested."""
    if last.blocked:
        yield Group(heading(f"Blocked: {last.blocked:,}"), blocked_table(last.blocked_by))
    if last.skipped:
        shown = [
            Text(escaped(f"{pod.pod}: {pod.detail}"))
            for pod in last.skipped_moves[: room.lines(MOST_LINES)]
        ]
        yield listed(f"Planned, not requested: {last.skipped:,}", shown, last.skipped)
    if last.moves and not room.is_live:
        shown = [
            Text.assemble(
                escaped(f"{move.pod}  {move.source} {room.arrow} {move.target}  "),
                (escaped(move.reason), "dim"),
            )
            for move in last.moves[: room.lines(MOST_LINES)]
        ]
        yield listed(f"Requested in the last round: {last.requested:,}", shown, last.requested)
    if last.overloaded:
        names = ", ".join(last.overloaded_nodes[:MOST_LINES])
        rest = last.overloaded - min(last.overloaded, MOST_LINES)
        more = f" and {rest:,} more" if rest else ""
        yield Text.assemble(("Nodes that pods should leave: ", "bold"), escaped(f"{names}{more}"))
    if last.unreadable:
        text = f"{last.unreadable:,}; rescheduler plan lists them"
        yield Text.assemble(("Objects that cannot be decoded: ", "bold"), text)


def listed(title: str, lines: Sequence[Text], count: int) -> RenderableType:
    """A title, lines below it, and how many are not shown."""
    rest = count - len(lines)
    more = [Text(f"and {rest:,} more", style="dim")] if rest > 0 else []
    below = [Padding(line, (0, 0, 0, 2), expand=False) for line in (*lines, *more)]
    return Group(heading(title), *below)


def blocked_table(counts: Sequence[BlockedCount]) -> Table:
    """How many pods each blocker stops, with an example."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, style="dim", overflow="fold")
    for each in counts:
        example = each.examples[0] if each.examples else PodReason("", "")
        such_as = "" if each.count == 1 else "such as "
        detail = f": {example.detail}" if example.detail else ""
        text = Text(escaped(f"{such_as}{example.pod}{detail}") if example.pod else "")
        table.add_row(f"{each.count:,}", Text(escaped(each.reason)), text)
    return table


# ---------------------------------------------------------------- migrations


def migrations_part(
    found: MigrationSummary, outcomes: Mapping[str, int], room: Room
) -> RenderableType:
    """How many there are, those under way with bars, and those that failed."""
    going_on = [each for each in found.listed if each.phase != Phase.FAILED]
    failed = [each for each in found.listed if each.phase == Phase.FAILED]
    lines: list[RenderableType] = [Text.assemble(("Migrations: ", "bold"), migration_counts(found))]
    shown = going_on[: room.lines(MOST_MIGRATIONS)]
    if shown:
        lines.append(migration_table(shown, room))
    rest = found.unfinished - len(shown)
    if rest > 0:
        lines.append(Text(f"and {rest:,} more; kubectl get migrations -A lists all", style="dim"))
    if failed:
        texts = [
            Text(escaped(f"{each.pod}: {each.message}"), style="red")
            for each in failed[: room.lines(MOST_LINES)]
        ]
        lines.append(listed("Failed", texts, found.phases.get(Phase.FAILED, 0)))
    if outcomes:
        lines.append(Text(f"In the last 24 hours: {outcome_counts(outcomes)}", style="dim"))
    return Group(*lines)


def migration_counts(found: MigrationSummary) -> str:
    """How many there are in which phase."""
    words = {
        Phase.IN_PROGRESS: "in progress",
        Phase.PENDING: "waiting",
        Phase.COMPLETED: "completed",
        Phase.FAILED: "failed",
        Phase.CANCELLED: "cancelled",
    }
    counts = [
        f"{found.phases[phase]:,} {word}" for phase, word in words.items() if phase in found.phases
    ]
    return ", ".join(counts) or "none"


def outcome_counts(outcomes: Mapping[str, int]) -> str:
    """How the moves that are over ended."""
    total = sum(outcomes.values())
    moves = "1 move" if total == 1 else f"{total:,} moves"
    counts = [
        f"{outcomes[name]:,} {word}" for name, word in OUTCOME_WORDS.items() if name in outcomes
    ]
    return f"{moves}: {', '.join(counts)}"


def migration_table(migrations: Sequence[MigrationState], room: Room) -> RenderableType:
    """A bar per migration, its state, its pod and its route; what it waits for comes below."""
    console = room.console
    nodes = {name for each in migrations for name in (each.source, each.target)}
    # The source is known once a migration has started.
    names = {"": "", **short_names(nodes - {""})}
    states = [state_text(each) for each in migrations]
    width = max(map(len, states))
    lines = []
    for each, state in zip(migrations, states, strict=True):
        line = Text(no_wrap=True, overflow="ellipsis")
        if console.width >= NARROW:
            line.append_text(step_bar(each, console)).append("  ")
        line.append_text(state).append(" " * (width - len(state) + 2))
        route = f"{names[each.source]} {room.arrow} {names[each.target]}".strip()
        width_left = console.width - len(line) - len(route) - 2
        gap = "..." if console.options.ascii_only else "…"
        line.append(shortened(escaped(each.pod), width_left, gap), style="bold")
        line.append(f"  {route}")
        lines.append(line)
        if each.message and (each.reason or (each.step_seconds or 0) >= LONG_STEP_SECONDS):
            lines.append(
                Text(f"  {escaped(each.message)}", "dim", no_wrap=True, overflow="ellipsis")
            )
    return Group(*lines)


def shortened(name: str, width: int, gap: str) -> str:
    """The beginning and the end of a name that is too long, for pods differ at their ends."""
    width = max(width, SHORTEST_NAME)
    if len(name) <= width:
        return name
    return f"{name[: width - ENDING - len(gap)]}{gap}{name[-ENDING:]}"


def step_bar(migration: MigrationState, console: Console) -> Text:
    """How far a migration is."""
    try:
        fraction = PROGRESS[Step(migration.step)]
    except ValueError:
        fraction = 0.0
    style = "yellow" if migration.reason else "cyan"
    return Text(blocks(fraction * STEP_BAR, STEP_BAR, console), style=style)


def state_text(migration: MigrationState) -> Text:
    """The step with how long it has taken, or the reason why it does not go on."""
    if migration.reason and migration.reason != MigrationReason.UNDOING:
        return Text(escaped(migration.reason), style="yellow")
    try:
        word = STEP_WORDS.get(Step(migration.step), migration.step)
    except ValueError:
        word = migration.step
    seconds = migration.step_seconds
    text = f"{word} {length(seconds)}" if seconds is not None else word
    return Text(escaped(text), style="yellow" if migration.reason else "cyan")


# ---------------------------------------------------------------- room and nodes


def reservations_part(found: ReservationSummary, room: Room) -> RenderableType:
    """The room that is kept for pods on their way."""
    lines = [
        Text(
            escaped(f"{each.pod} on {each.node}: {amounts(each.cpu_millicores, each.memory_bytes)}")
        )
        for each in found.pods[: room.lines(MOST_LINES)]
    ]
    title = f"Room kept for pods on their way: {found.count:,}"
    if found.for_replacements:
        title += f", and by the extender alone for others: {found.for_replacements:,}"
    return listed(title, lines, found.count)


def amounts(millicores: int, memory_bytes: int) -> str:
    """CPU and memory, as people write them."""
    return f"{millicores / 1000:g} CPU, {memory_bytes / MIB:,.0f} MiB"


def nodes_part(nodes: NodeSummary, room: Room) -> RenderableType:
    """What pods request of the nodes: a bar for each, or a histogram of many."""
    counts = [f"{nodes.count:,}"]
    counts += [f"{nodes.not_ready:,} not Ready"] if nodes.not_ready else []
    counts += [f"{nodes.cordoned:,} cordoned"] if nodes.cordoned else []
    title = Text.assemble(("Nodes: ", "bold"), ", ".join(counts), (" (requests)", "dim"))
    most = room.console.height // 3 if room.is_live else MOST_BARS
    is_small = nodes.count <= min(len(nodes.fullest), most)
    drawing = node_bars if is_small else node_histogram
    return Group(title, drawing(nodes, room.console))


def load_grid(first: str) -> Table:
    """A table without lines: a name, CPU and memory."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column(first, no_wrap=True, overflow="ellipsis", max_width=40)
    table.add_column("CPU", no_wrap=True)
    table.add_column("Memory", no_wrap=True)
    return table


def width_of_bars(console: Console) -> int:
    """The longest bar that leaves room for names."""
    room = (console.width - 30) // 2 - 8
    return max(0, min(24, room)) if room >= 6 else 0


def node_bars(nodes: NodeSummary, console: Console) -> Table:
    """A line per node, the fullest first."""
    width, names = width_of_bars(console), short_names(node.name for node in nodes.fullest)
    table = load_grid("Node")
    table.add_column("", no_wrap=True, style="yellow")
    for node in nodes.fullest:
        marks = [*([] if node.is_ready else ["not Ready"]), *(["cordoned"] * node.is_cordoned)]
        table.add_row(
            Text(names[node.name]),
            bar(node.cpu, width, console),
            bar(node.memory, width, console),
            ", ".join(marks),
        )
    return table


def node_histogram(nodes: NodeSummary, console: Console) -> Table:
    """A line per tenth of utilization, with the number of nodes in it."""
    width, most = width_of_bars(console), max((*nodes.cpu, *nodes.memory), default=1) or 1
    table = load_grid("Utilization")
    for bucket, (cpu, memory) in enumerate(zip(nodes.cpu, nodes.memory, strict=False)):
        if bucket < BUCKETS or cpu or memory:
            cells = [count_bar(count, most, bucket, width, console) for count in (cpu, memory)]
            table.add_row(bucket_name(bucket), *cells)
    return table


# ---------------------------------------------------------------- notes


def notes_part(notes: Sequence[Note]) -> RenderableType:
    """What is missing, and what to do."""
    return Group(
        *(
            Text.assemble((f"{escaped(note.reason)}: ", "bold yellow"), escaped(note.sentence))
            for note in notes
        )
    )


def length(seconds: float) -> str:
    """A length of time in the unit that suits it."""
    seconds = max(0.0, seconds)
    if seconds < 1:
        return "less than 1 s"
    for unit, size in (("s", 1), ("min", 60), ("h", 3600)):
        if seconds < 100 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"
