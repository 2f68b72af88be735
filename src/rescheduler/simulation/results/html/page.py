"""The page: what the template shows of one run, or of several runs with the same future."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rescheduler.migration.migration_object import Phase
from rescheduler.simulation.results.html import heat_strip, line_plots, tables
from rescheduler.simulation.results.html.svg import markup
from rescheduler.simulation.results.html.tables import ReportTable
from rescheduler.simulation.results.result import Result
from rescheduler.simulation.results.text import (
    EXPLANATIONS,
    NONE,
    TITLES,
    format_duration,
    format_value,
    headline,
    leftover_sentence,
    run_description,
    with_short_policy_names,
)

TEMPLATE, STYLE_SHEET = "report.html.j2", "report.css"


@dataclass(frozen=True)
class Card:
    """A key figure."""

    title: str
    value: str
    more: str
    tone: str = "plain"
    """Its class in the style sheet: `plain`, `good` or `bad`."""


@dataclass(frozen=True)
class Plot:
    """A series of all runs over time."""

    title: str
    explanation: str
    ends: str
    """The first and the last value; empty if there are several runs."""
    drawing: Markup


@dataclass(frozen=True)
class HeatStrip:
    """The loads of all nodes of a run over time."""

    explanation: str
    drawing: Markup


@dataclass(frozen=True)
class Run:
    """What is shown of one run alone."""

    policy: str
    colour: str
    """The class of its lines in the style sheet."""
    has_rescheduler: bool
    heat_strip: HeatStrip
    shortages: ReportTable
    moves: ReportTable
    leftovers: str
    blocked: ReportTable
    rounds_without_moves: ReportTable
    warnings: Sequence[str]


def html_report(results: Sequence[Result]) -> str:
    """One run, or several runs of the same future side by side."""
    results = with_short_policy_names(results)
    is_comparison = len(results) > 1
    main = next((result for result in results if result.policy != NONE), results[0])
    policy = "" if is_comparison else f", policy {main.policy}"
    return (
        _environment()
        .get_template(TEMPLATE)
        .render(
            style_sheet=_style_sheet(),
            headline=headline(main),
            about=f"{run_description(main)}{policy}.",
            notes=main.notes,
            cards=[] if is_comparison else list(cards(main)),
            comparison=tables.comparison(results) if is_comparison else None,
            plots=[plot(name, results) for name in TITLES],
            runs=[run(result, number) for number, result in enumerate(results)],
            heat_scale=markup(heat_strip.scale()),
            timeline=tables.timeline(results[0]),
        )
    )


def cards(result: Result) -> Iterator[Card]:
    """The key figures."""
    from_first_to_last = {
        "Imbalance": ("imbalance", result.summary["imbalance"]),
        "Nodes in use": ("nodes_in_use", result.summary["nodesInUse"]),
        "Cost of nodes in use": ("cost", result.summary["cost"]),
    }
    for title, (name, figures) in from_first_to_last.items():
        ends = f"{format_value(name, figures.first)} → {format_value(name, figures.last)}"
        yield Card(title, ends, f"on average {format_value(name, figures.mean)}")
    done = result.migrations.by_phase.get(Phase.COMPLETED, 0)
    yield Card("Pods moved", f"{done:,}", f"of {result.migrations.total:,} requested")
    shortages = result.shortages_by_moves
    if shortages.total:
        lasted = f"for {format_duration(shortages.pod_seconds)} in all"
        yield Card("Shortages caused by moves", f"{shortages.total:,}", lasted, "bad")
    else:
        yield Card("Shortages caused by moves", "0", "by moves", "good")
    pending = result.pending
    waited = f"{pending.pods:,} pods, at most {format_duration(pending.longest_seconds)}"
    yield Card("Waited for a node", format_duration(pending.pod_seconds), waited)


def plot(name: str, results: Sequence[Result]) -> Plot:
    """A series by its name."""
    ends = line_plots.first_and_last(name, results[0]) if len(results) == 1 else ""
    return Plot(TITLES[name], EXPLANATIONS[name], ends, markup(line_plots.drawing(name, results)))


def run(result: Result, number: int) -> Run:
    """What is shown of one run alone; its number says which colour it has."""
    return Run(
        policy=result.policy,
        colour=line_plots.colour(number),
        has_rescheduler=result.policy != NONE,
        heat_strip=HeatStrip(heat_strip.explanation(result), markup(heat_strip.drawing(result))),
        shortages=tables.shortages(result),
        moves=tables.moves(result),
        leftovers=leftover_sentence(result),
        blocked=tables.blocked(result),
        rounds_without_moves=tables.rounds_without_moves(result),
        warnings=result.warnings,
    )


def _environment() -> Environment:
    # Names in a cluster are text, wherever the template puts them; a misspelt variable is an error.
    return Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _style_sheet() -> Markup:
    return Markup(files(__package__).joinpath(STYLE_SHEET).read_text("utf-8"))
