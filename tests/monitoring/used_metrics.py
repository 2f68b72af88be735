"""Which metrics an expression asks for."""

import re


def used_metrics(expression: str) -> set[str]:
    """The names of our metrics in an expression; values of labels do not count."""
    without_values = re.sub(r'"[^"]*"', '""', expression)
    return set(re.findall(r"\brescheduler_\w+", without_values))
