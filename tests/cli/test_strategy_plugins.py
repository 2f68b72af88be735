"""Plugins that do not work: the error is one line and names the strategy."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Result
from tests.plugin_site import Site

Command = Callable[..., Result]

CLUSTER = Path(__file__).parents[2] / "examples" / "uneven-cluster.yaml"

BROKEN = """
from rescheduler.planning.strategies.strategy import Strategy


class Packing(Strategy):
    name = "Packing"

    def nodes_to_relieve(self, used, movable):
        return used[len(used)]
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.syspath_prepend(tmp_path)
    return Site(tmp_path)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text("enabledStrategies: [Packing]")
    return file


def test_an_error_in_a_plugin_names_its_strategy_and_line(
    command: Command, site: Site, policy: Path
) -> None:
    site.install("acme-packing", BROKEN)
    result = command("plan", "-s", CLUSTER, "-p", policy)
    assert result.code == 2
    assert result.err.startswith("rescheduler: strategy Packing: nodes_to_relieve (")
    assert "line 9): IndexError: index " in result.err
    assert len(result.err.splitlines()) == 1


def test_a_plugin_that_is_not_enabled_is_not_run(command: Command, site: Site) -> None:
    site.install("acme-packing", BROKEN)
    assert command("plan", "-s", CLUSTER).code == 0


@pytest.mark.parametrize("arguments", [["plan"], ["explain", "data/orders-db-0"]])
def test_a_class_that_is_not_a_strategy_is_rejected(
    command: Command, site: Site, arguments: list[str]
) -> None:
    site.install("acme-packing", "class Packing:\n    name = 'Packing'")
    result = command(*arguments, "-s", CLUSTER)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("rescheduler: strategy Packing: plugin_")
    assert result.err.endswith(
        "expected a class derived from rescheduler.planning.strategies.strategy.Strategy\n"
    )


def test_explain_accepts_policies_that_enable_plugins(
    command: Command, site: Site, policy: Path
) -> None:
    site.install("acme-packing", BROKEN)
    result = command("explain", "data/orders-db-0", "-s", CLUSTER, "-p", policy)
    assert (result.code, result.err) == (0, "")
