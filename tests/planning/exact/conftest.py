"""A table at the end of the test run: how close plans come to the optimum."""

import pytest

from tests.planning.exact.comparison import Compared, table

compared = pytest.StashKey[list[Compared]]()


@pytest.fixture(scope="session")
def everything_compared(request: pytest.FixtureRequest) -> list[Compared]:
    """What goes into the table."""
    return request.config.stash.setdefault(compared, [])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    results = config.stash.get(compared, [])
    if results:
        terminalreporter.section("plans beside the exact optimum")
        for line in table(results):
            terminalreporter.write_line(line)
