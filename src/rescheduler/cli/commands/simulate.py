"""`rescheduler simulate`: a cluster in memory, for a day or so, in seconds."""

import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.inputs import policy_in, refuse_second_use_of_stdin
from rescheduler.cli.options import PolicyFile
from rescheduler.cli.views.console import console
from rescheduler.files.local_files import STANDARD, output_to, read_input

if TYPE_CHECKING:
    from rescheduler.cli.strategy_plugins import Strategies
    from rescheduler.settings import Policy
    from rescheduler.simulation.results.result import Result
    from rescheduler.simulation.scenario.workload_fields import WorkloadFile
    from rescheduler.simulation.simulation import NamedPolicy, Scenario

INTERRUPTED = 130
LONGEST_DAYS = 366
DAY_SECONDS = 86_400
LEADING_DAYS = re.compile(r"(?:(\d+)d)?(.*)", re.ASCII | re.DOTALL)
NONE = "none"
DEFAULTS, EXAMPLE = "defaults", "example"


class Output(StrEnum):
    """How the result is shown."""

    TABLE = "table"
    JSON = "json"


def simulate(
    snapshot: Annotated[
        list[str] | None,
        typer.Option(
            "--snapshot",
            "-s",
            metavar="FILE",
            help="The cluster to start from, as for plan; a generated one if there is none.",
        ),
    ] = None,
    policy: PolicyFile = None,
    span: Annotated[
        str,
        typer.Option("--for", metavar="DURATION", help="How long to simulate: 90m, 24h, 7d."),
    ] = "24h",
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload", "-w", metavar="FILE", help="What happens meanwhile; nothing without it."
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(metavar="NUMBER", help="All chance: the same number gives the same story."),
    ] = 0,
    report: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also write an HTML page with plots."),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How to show the result.")
    ] = Output.TABLE,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="FILES",
            help="Several policies on the same future, side by side: none,FILE,FILE… "
            "(none is without the rescheduler).",
        ),
    ] = None,
) -> None:
    """Let a cluster live in memory, with the rescheduler at work, and tell what was seen.

    Nothing real is touched. Controller, planner and migrations are the very code that `run` runs.
    """
    seconds, others = seconds_in(span), names_in(compare)
    refuse_to_mix_outputs(report)
    refuse_second_use_of_stdin([*(snapshot or ()), workload or "", *others], policy)
    from rescheduler.cli.strategy_plugins import strategies_of_others

    strategies = strategies_of_others()
    tried = policies_to_try(policy, others, bool(snapshot), strategies)
    scenario = scenario_from(snapshot, workload, seconds, seed, tried)
    with ExitStack() as stack:
        # Opened first: after a long simulation it would be late to find that it cannot be.
        page = stack.enter_context(output_to(report)) if report else None
        results = run_all(scenario, tried, strategies)
        if page is not None:
            from rescheduler.simulation.results.html import html_report

            page.write(html_report(results).encode())
    show(results, output, bool(compare), report)
    if any(result.interrupted for result in results):
        raise typer.Exit(INTERRUPTED)


def seconds_in(span: str) -> float:
    """How long a duration is: as policies write it, and days may come first."""
    from rescheduler.settings import seconds_of

    parts = LEADING_DAYS.fullmatch(span)
    assert parts is not None, "every text matches"
    try:
        seconds = float(int(parts[1] or 0) * DAY_SECONDS)
        if parts[2] or not seconds:
            seconds += seconds_of(parts[2])
    except ValueError as error:
        raise typer.BadParameter(f"{span!r}: {error}", param_hint="--for") from error
    if seconds > LONGEST_DAYS * DAY_SECONDS:
        raise typer.BadParameter(f"{span!r}: expected at most {LONGEST_DAYS}d", param_hint="--for")
    return seconds


def refuse_to_mix_outputs(report: str | None) -> None:
    """The page and what is printed would end up in one another."""
    if report in ("", STANDARD):
        raise typer.BadParameter(
            f"{report!r}: expected a file: standard output has the result", param_hint="--report"
        )


def names_in(compare: str | None) -> list[str]:
    """The policies that are to be compared."""
    names = [name.strip() for name in compare.split(",")] if compare is not None else []
    if not all(names):
        raise typer.BadParameter(
            f"{compare!r}: expected files and none, with commas between", param_hint="--compare"
        )
    return names


def policies_to_try(
    policy: str | None, others: Sequence[str], has_snapshot: bool, strategies: "Strategies"
) -> list["NamedPolicy"]:
    """The policies, by the names under which they are shown."""
    from rescheduler.simulation.simulation import NamedPolicy

    tried = [
        NamedPolicy(shown(name), None if name == NONE else policy_in(name, strategies))
        for name in others
    ]
    if policy is not None:
        tried.insert(0, NamedPolicy(shown(policy), policy_in(policy, strategies)))
    elif len(tried) < 2:
        tried.insert(0, without_a_file(has_snapshot))
    return tried


def shown(file: str) -> str:
    """A file's name as text: to the system it is bytes, and they may mean nothing."""
    return file.encode(errors="backslashreplace").decode()


def without_a_file(has_snapshot: bool) -> "NamedPolicy":
    """What is tried if no policy is named."""
    from rescheduler.settings import Policy
    from rescheduler.simulation.scenario.example_cluster import example_policy
    from rescheduler.simulation.simulation import NamedPolicy

    return (
        NamedPolicy(DEFAULTS, Policy()) if has_snapshot else NamedPolicy(EXAMPLE, example_policy())
    )


def scenario_from(
    snapshot: list[str] | None,
    workload: str | None,
    seconds: float,
    seed: int,
    tried: Sequence["NamedPolicy"],
) -> "Scenario":
    """The cluster at the start, and what happens to it."""
    from rescheduler.simulation.scenario.cluster_completion import complete_cluster
    from rescheduler.simulation.scenario.cluster_input import objects_in
    from rescheduler.simulation.scenario.example_cluster import example_cluster
    from rescheduler.simulation.scenario.timeline import timeline_of
    from rescheduler.simulation.simulation import Scenario

    objects = objects_in(map(read_input, snapshot)) if snapshot else example_cluster(seed)
    cluster = complete_cluster(objects)
    name, happens = workload_in(workload)
    return Scenario(
        objects=cluster.objects,
        timeline=timeline_of(happens, cluster.objects, seed=seed, seconds=seconds, name=name),
        midnight=cluster.start,
        starts_at=happens.start,
        seconds=seconds,
        seed=seed,
        notes=cluster.notes,
        prices=prices_in([each.policy for each in tried]),
    )


def workload_in(file: str | None) -> tuple[str, "WorkloadFile"]:
    """The workload in a file, or an idle one; and what the file is called."""
    from rescheduler.simulation.scenario.workload_fields import WorkloadFile
    from rescheduler.simulation.scenario.workload_file import read_workload

    if file is None:
        return "", WorkloadFile()
    name, data = read_input(file)
    return name, read_workload(name, data)


def prices_in(policies: Sequence["Policy | None"]) -> dict[str, float]:
    """What nodes cost: the same for all, or costs could not be compared."""
    tables = [each.cost_optimization.prices for each in policies if each is not None]
    return next((dict(table) for table in tables if table), {})


def run_all(
    scenario: "Scenario", tried: Sequence["NamedPolicy"], strategies: "Strategies"
) -> list["Result"]:
    """One run after another, each of them watched; an interruption ends them all."""
    from rescheduler.cli.strategy_plugins import naming_the_plugin
    from rescheduler.cli.views.simulate_live_view import view_of
    from rescheduler.simulation.simulation import simulate as run_one

    results = []
    with interruptions() as is_interrupted, naming_the_plugin(strategies):
        for number, each in enumerate(tried, start=1):
            title = f"{each.name} ({number} of {len(tried)})" if len(tried) > 1 else each.name
            with view_of(title) as show_progress:
                result = run_one(
                    scenario,
                    each,
                    strategies=strategies,
                    show=show_progress,
                    is_interrupted=is_interrupted,
                )
            results.append(result)
            if result.interrupted:
                break
    return results


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """Whether someone has pressed Ctrl-C; the second time, Python ends as usual."""
    pressed = []

    def note(number: int, frame: object) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def show(
    results: Sequence["Result"], output: Output, is_comparison: bool, report: str | None
) -> None:
    """Print the result on standard output."""
    if output is Output.JSON:
        from rescheduler.simulation.results.result import as_json

        sys.stdout.write(as_json(results, is_comparison))
        return
    from rescheduler.cli.views.simulate_view import show_results

    show_results(results, console(), report)
