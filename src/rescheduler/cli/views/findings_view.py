"""What `doctor` has found: a line each, and what to do below it."""

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.views.console import console
from rescheduler.doctor.findings import Finding, Health

MARKS = {
    Health.GOOD: ("✓", "green"),
    Health.DOUBTFUL: ("!", "yellow"),
    Health.BAD: ("✗", "red"),
    Health.UNKNOWN: ("?", "dim"),
}


def print_finding(finding: Finding) -> None:
    """Print one finding."""
    from rich.text import Text

    mark, style = MARKS[finding.health]
    line = Text.assemble((mark, style), " ", (f"{finding.subject}: ", "bold"))
    line.append(escaped(finding.detail))
    if finding.todo:
        line.append(f"\n    → {escaped(finding.todo)}")
    console().print(line, soft_wrap=True)
