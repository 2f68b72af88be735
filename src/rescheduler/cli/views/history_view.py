"""Moves that are over: a line each, or counted by day, strategy or workload."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.views.console import console
from rescheduler.cli.views.utilization_chart import short_names
from rescheduler.migration.memory.move_record import MoveRecord
from rescheduler.model.moves import Outcome

# From this width on, reasons have a column of their own instead of a line.
WIDE = 140
# More are cut.
MOST_MOVES = 100
STYLES = {
    Outcome.LANDED: "green",
    Outcome.ELSEWHERE: "yellow",
    Outcome.CAME_BACK: "yellow",
    Outcome.FAILED: "red",
}
WORDS = {
    Outcome.LANDED: "landed",
    Outcome.ELSEWHERE: "elsewhere",
    Outcome.CAME_BACK: "came back",
    Outcome.FAILED: "failed",
}
BY_HAND = "by hand"
"""The strategy of moves that a person requested."""

_GROUPS: dict[str, Callable[[MoveRecord], str]] = {
    "day": lambda record: _in_utc(record).strftime("%Y-%m-%d"),
    "strategy": lambda record: record.spec.strategy or BY_HAND,
    "workload": lambda record: _workload(record),
}


def print_moves(records: Sequence[MoveRecord]) -> None:
    """Print every move, the latest first, with its reason or how it failed."""
    out = console()
    if not records:
        out.print("No moves.")
        return
    shown = records[:MOST_MOVES]
    arrow = "->" if out.options.ascii_only else "→"
    out.print(_table(shown, arrow) if out.width >= WIDE else Group(*_lines(shown, arrow)))
    if len(records) > len(shown):
        rest = len(records) - len(shown)
        out.print(f"and {rest:,} earlier ones; use --since, -o json or --by to see less or all")


def print_counts(records: Sequence[MoveRecord], by: str) -> None:
    """Print how many moves there were of each kind, and how they ended."""
    if not records:
        console().print("No moves.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column(by.capitalize(), overflow="fold")
    table.add_column("Moves", justify="right")
    for outcome in WORDS:
        table.add_column(WORDS[outcome].capitalize(), justify="right")
    for row in counts(records, by):
        ended = [row[outcome.value] for outcome in WORDS]
        cells = [
            Text(str(number), STYLES[outcome] if number else "dim")
            for outcome, number in zip(WORDS, ended, strict=True)
        ]
        table.add_row(escaped(row[by]), str(row["moves"]), *cells)
    console().print(table)


def counts(records: Sequence[MoveRecord], by: str) -> list[dict[str, Any]]:
    """How many moves there were of each kind, and how they ended. Days are in order."""
    ended: defaultdict[str, Counter[Outcome]] = defaultdict(Counter)
    for record in records:
        ended[_GROUPS[by](record)][record.spec.outcome] += 1
    order = sorted(ended) if by == "day" else sorted(ended, key=lambda key: -ended[key].total())
    return [
        {
            by: key,
            "moves": ended[key].total(),
            **{outcome.value: ended[key][outcome] for outcome in WORDS},
        }
        for key in order
    ]


def _workload(record: MoveRecord) -> str:
    """The workload; a Deployment has another ReplicaSet after each rollout, and stands for all."""
    name = record.deployment
    return f"Deployment/{record.spec.namespace}/{name}" if name else record.subject


def as_json(records: Sequence[MoveRecord]) -> list[dict[str, Any]]:
    """The moves for other programs."""
    return [
        {
            "finishedAt": record.spec.finished_at,
            "namespace": record.spec.namespace,
            "pod": record.spec.pod,
            "newPod": record.spec.new_pod,
            "workload": record.subject if record.spec.workload is not None else "",
            "sourceNode": record.spec.source_node,
            "targetNode": record.spec.target_node,
            "newNode": record.spec.new_node,
            "mode": record.spec.mode,
            "strategy": record.spec.strategy,
            "outcome": record.spec.outcome,
            "reason": record.spec.reason,
            "message": record.spec.message,
        }
        for record in records
    ]


def _table(records: Sequence[MoveRecord], arrow: str) -> Table:
    """A line per move."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    route = f"From {arrow} to"
    for title in ("Ended (UTC)", "Pod", route, "Mode", "Outcome", "Strategy", "Why"):
        table.add_column(title, overflow="fold", ratio=1 if title == "Why" else None)
    names = _names(records)
    for record in records:
        spec = record.spec
        table.add_row(
            _time(record),
            escaped(record.pod_key),
            _route(record, names, arrow),
            str(spec.mode or ""),
            _outcome(record),
            escaped(spec.strategy or BY_HAND),
            escaped(_why(record)),
        )
    return table


def _lines(records: Sequence[MoveRecord], arrow: str) -> Iterator[RenderableType]:
    """The move in one line, the reason in the next."""
    names = _names(records)
    for record in records:
        line = Text(f"{_time(record)}  ", style="dim")
        line.append(escaped(record.pod_key), style="not dim bold")
        line.append(f"  {_route(record, names, arrow)}  ", style="not dim")
        line.append_text(_outcome(record))
        yield line
        why = f"{record.spec.strategy or BY_HAND}: {_why(record)}"
        yield Padding(Text(escaped(why), style="dim"), (0, 0, 0, 4), expand=False)


def _names(records: Sequence[MoveRecord]) -> Mapping[str, str]:
    specs = [record.spec for record in records]
    nodes = {name for spec in specs for name in (spec.source_node, spec.target_node)}
    return short_names(nodes)


def _time(record: MoveRecord) -> str:
    return _in_utc(record).strftime("%Y-%m-%d %H:%M")


def _in_utc(record: MoveRecord) -> datetime:
    """When it ended. The controller writes UTC; somebody else may have written another zone."""
    try:
        return record.spec.finished_at.astimezone(UTC)
    except OverflowError:
        # In the first or the last hours that there are. An older definition accepts these.
        return record.spec.finished_at


def _route(record: MoveRecord, names: Mapping[str, str], arrow: str) -> str:
    return f"{names[record.spec.source_node]} {arrow} {names[record.spec.target_node]}"


def _outcome(record: MoveRecord) -> Text:
    """How it ended, and where, if that is not the target."""
    spec = record.spec
    where = f" ({escaped(spec.new_node)})" if spec.outcome == Outcome.ELSEWHERE else ""
    return Text(f"{WORDS[spec.outcome]}{where}", STYLES[spec.outcome] + " not dim")


def _why(record: MoveRecord) -> str:
    """Why the pod was moved; if that failed, why."""
    spec = record.spec
    if spec.outcome == Outcome.FAILED and spec.message:
        return spec.message
    return spec.reason or spec.message
