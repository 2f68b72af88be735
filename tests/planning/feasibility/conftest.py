"""A line at the end of the test run that says what was compared."""

from collections.abc import Callable

import pytest

SayAtTheEnd = Callable[[str], None]

_lines = pytest.StashKey[list[str]]()


@pytest.fixture
def say_at_the_end(request: pytest.FixtureRequest) -> SayAtTheEnd:
    """Have a line printed below the results."""
    return request.config.stash.setdefault(_lines, []).append


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash.get(_lines, []):
        terminalreporter.write_line(line)
