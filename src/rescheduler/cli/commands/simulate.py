"""`rescheduler simulate`: simulate a cluster in memory, a day in about half a minute."""

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


class SimulateOutput(StrEnum):
    """The formats of the results."""

    TABLE = "table"
    JSON = "json"


def simulate(
    snapshot: Annotated[
        list[str] | None,
        typer.Option(
            "--snapshot",
            "-s",
            metavar="FILE",
            help="File with the cluster to start from, as for plan. Default: a generated cluster.",
        ),
    ] = None,
    policy: PolicyFile = None,
    span: Annotated[
        str,
        typer.Option(
            "--for", metavar="DURATION", help="How long to simulate, such as 90m, 24h or 7d."
        ),
    ] = "24h",
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            "-w",
            metavar="FILE",
            help="Workload file: what happens in the cluster. Default: nothing happens.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            help="Seed for all random choices. The same seed gives the same simulation.",
        ),
    ] = 0,
    report: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also write an HTML report with charts to this file."),
    ] = None,
    output: Annotated[
        SimulateOutput, typer.Option("--output", "-o", help="Output format.")
    ] = SimulateOutput.TABLE,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="FILES",
            help="Simulate several policies with the same workload and compare them: "
            "none,FILE,FILE… (none: without the rescheduler).",
        ),
    ] = None,
) -> None:
    """Simulate a cluster in memory with the rescheduler running.

    No real cluster is changed. Controller, planner and migrations are the same code as in `run`.
    """
    seconds, others = duration_seconds(span), names_in(compare)
    refuse_to_mix_outputs(report)
    refuse_second_use_of_stdin([*(snapshot or ()), workload or "", *others], policy)
    from rescheduler.cli.strategy_plugins import plugin_strategies

    strategies = plugin_strategies()
    tried = policies_to_try(policy, others, bool(snapshot), strategies)
    scenario = scenario_from(snapshot, workload, seconds, seed, tried)
    with ExitStack() as stack:
        # Opened first: an unwritable file should fail before a long simulation, not after it.
        page = stack.enter_context(output_to(report)) if report else None
        results = run_all(scenario, tried, strategies)
        if page is not None:
            from rescheduler.simulation.results.html import html_report

            page.write(html_report(results).encode())
    show(results, output, bool(compare), report)
    if any(result.interrupted for result in results):
        raise typer.Exit(INTERRUPTED)


def duration_seconds(span: str) -> float:
    """The seconds of a duration as policies write it; in addition, days may come first."""
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
    """Standard output has the results, so the report cannot go there."""
    if report in ("", STANDARD):
        raise typer.BadParameter(
            f"{report!r}: expected a file; standard output has the results", param_hint="--report"
        )


def names_in(compare: str | None) -> list[str]:
    """The policies to compare."""
    names = [name.strip() for name in compare.split(",")] if compare is not None else []
    if not all(names):
        raise typer.BadParameter(
            f"{compare!r}: expected files or none, separated by commas", param_hint="--compare"
        )
    return names


def policies_to_try(
    policy: str | None, others: Sequence[str], has_snapshot: bool, strategies: "Strategies"
) -> list["NamedPolicy"]:
    """The policies, each with the name that is shown for it."""
    from rescheduler.simulation.simulation import NamedPolicy

    tried = [
        NamedPolicy(printable(name), None if name == NONE else policy_in(name, strategies))
        for name in others
    ]
    if policy is not None:
        tried.insert(0, NamedPolicy(printable(policy), policy_in(policy, strategies)))
    elif len(tried) < 2:
        tried.insert(0, default_policy(has_snapshot))
    return tried


def printable(file: str) -> str:
    """The name of a file as text that can be printed: it may have bytes that are not UTF-8."""
    return file.encode(errors="backslashreplace").decode()


def default_policy(has_snapshot: bool) -> "NamedPolicy":
    """The policy if the user names none: the generated cluster has one that fits it."""
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
    """The cluster and everything that will happen in it."""
    from rescheduler.simulation.scenario.cluster_completion import complete_cluster
    from rescheduler.simulation.scenario.cluster_input import objects_in
    from rescheduler.simulation.scenario.example_cluster import example_cluster
    from rescheduler.simulation.scenario.timeline import timeline_of
    from rescheduler.simulation.simulation import Scenario

    objects = objects_in(map(read_input, snapshot)) if snapshot else example_cluster(seed)
    cluster = complete_cluster(objects)
    name, content = workload_in(workload)
    return Scenario(
        objects=cluster.objects,
        timeline=timeline_of(content, cluster.objects, seed=seed, seconds=seconds, name=name),
        midnight=cluster.start,
        starts_at=content.start,
        seconds=seconds,
        seed=seed,
        notes=cluster.notes,
        prices=prices_in([entry.policy for entry in tried]),
    )


def workload_in(file: str | None) -> tuple[str, "WorkloadFile"]:
    """The name and the content of a workload file; without one, a workload with no changes."""
    from rescheduler.simulation.scenario.workload_fields import WorkloadFile
    from rescheduler.simulation.scenario.workload_file import read_workload

    if file is None:
        return "", WorkloadFile()
    name, data = read_input(file)
    return name, read_workload(name, data)


def prices_in(policies: Sequence["Policy | None"]) -> dict[str, float]:
    """The prices of nodes: the same for all policies, so that their costs can be compared."""
    tables = [policy.node_prices for policy in policies if policy is not None]
    return next((dict(table) for table in tables if table), {})


def run_all(
    scenario: "Scenario", tried: Sequence["NamedPolicy"], strategies: "Strategies"
) -> list["Result"]:
    """Simulate one policy after another and show the progress. Ctrl-C ends them all."""
    from rescheduler.cli.strategy_plugins import plugin_errors_named
    from rescheduler.cli.views.simulation_progress_view import progress_view
    from rescheduler.simulation.simulation import simulate as run_one

    results = []
    with interruptions() as is_interrupted, plugin_errors_named(strategies):
        for number, entry in enumerate(tried, start=1):
            title = f"{entry.name} ({number} of {len(tried)})" if len(tried) > 1 else entry.name
            with progress_view(title) as show_progress:
                result = run_one(
                    scenario,
                    entry,
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
    """A function that returns whether Ctrl-C was pressed. A second Ctrl-C ends the program."""
    received = []

    def record(number: int, frame: object) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, record)
    try:
        yield lambda: bool(received)
    finally:
        signal.signal(signal.SIGINT, before)


def show(
    results: Sequence["Result"], output: SimulateOutput, is_comparison: bool, report: str | None
) -> None:
    """Print the results on standard output."""
    if output is SimulateOutput.JSON:
        from rescheduler.simulation.results.result import as_json

        sys.stdout.write(as_json(results, is_comparison))
        return
    from rescheduler.cli.views.simulation_result_view import show_results

    show_results(results, console(), report)
