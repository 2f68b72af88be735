"""`rescheduler history`: what was moved, when, why, and how it ended."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.control_characters import escaped_json
from rescheduler.cli.options import ClusterAccess, Context, Kubeconfig, seconds_given
from rescheduler.errors import NotFound
from rescheduler.model.moves import Outcome

if TYPE_CHECKING:
    from datetime import datetime

    from rescheduler.migration.memory.move_record import MoveRecord

MOST_SECONDS = 100 * 365 * 86_400.0


class HistoryOutput(StrEnum):
    """The formats of the history."""

    TABLE = "table"
    JSON = "json"


class GroupedBy(StrEnum):
    """What moves are counted by."""

    DAY = "day"
    STRATEGY = "strategy"
    WORKLOAD = "workload"


class Ending(StrEnum):
    """How a move can have ended."""

    LANDED = Outcome.LANDED.value
    ELSEWHERE = Outcome.ELSEWHERE.value
    CAME_BACK = Outcome.CAME_BACK.value
    FAILED = Outcome.FAILED.value


def history(
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Only its pods.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Only moves that ended in this time, such as 24h."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only moves that it planned; `by hand` for those that a person requested.",
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only pods of this workload; also KIND/NAME or KIND/NAMESPACE/NAME.",
        ),
    ] = None,
    outcome: Annotated[Ending | None, typer.Option(help="Only moves that ended like this.")] = None,
    by: Annotated[
        GroupedBy | None, typer.Option(help="Count the moves instead of listing them.")
    ] = None,
    output: Annotated[
        HistoryOutput, typer.Option("--output", "-o", help="Output format.")
    ] = HistoryOutput.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show the moves that are over: when, why, from where to where, and how they ended.

    The cluster remembers two weeks, and at most 2,000 moves, also when Migrations are deleted.
    """
    import asyncio
    from datetime import timedelta

    from rescheduler.cli.views.history_view import BY_HAND
    from rescheduler.migration.memory.move_filter import MoveFilter

    # No move is older than this, and no date older than year 1.
    seconds = None if since is None else min(seconds_given("--since", since), MOST_SECONDS)
    records, now = asyncio.run(read(ClusterAccess(kubeconfig, context)))
    earliest = None if seconds is None else now - timedelta(seconds=seconds)
    ending = None if outcome is None else Outcome(outcome)
    planned_by = "" if strategy == BY_HAND else strategy
    wanted = MoveFilter(namespace, earliest, planned_by, workload, ending)
    show([record for record in records if wanted.accepts(record)], by, output)


async def read(access: ClusterAccess) -> "tuple[list[MoveRecord], datetime]":
    """All moves that are over, the latest first, and the time by the clock of the API server."""
    from rescheduler.cli.connection import connect
    from rescheduler.migration.memory.record_reading import read_records
    from rescheduler.migration.migration_watches import CrdMissing

    async with connect(access) as server:
        try:
            records = await read_records(
                server, lambda text: print(f"Note: {text}", file=sys.stderr)
            )
        except NotFound as error:
            raise CrdMissing from error
        return records, server.server_clock.now()


def show(records: "list[MoveRecord]", by: GroupedBy | None, output: HistoryOutput) -> None:
    """Print the moves, or how many there are of each kind."""
    from rescheduler.cli.views import history_view

    if output == HistoryOutput.JSON:
        import msgspec

        found = history_view.as_json(records) if by is None else history_view.counts(records, by)
        name = "moves" if by is None else f"by{by.capitalize()}"
        encoded = msgspec.json.format(msgspec.json.encode({name: found}))
        sys.stdout.write(escaped_json(encoded.decode()) + "\n")
    elif by is None:
        history_view.print_moves(records)
    else:
        history_view.print_counts(records, by)
