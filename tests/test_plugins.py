"""Strategies of other people: found where they are installed, refused where they cannot work."""

from pathlib import Path

import pytest

from rescheduler.errors import SettingsError
from rescheduler.files.policy_file import read_policy
from rescheduler.plugins import installed_strategies
from tests.plugin_site import Site

PACKING = """
from rescheduler.settings import Options


class Packing:
    name = "Packing"

    class Options(Options, frozen=True):
        headroom_percent: float = 10.0
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.syspath_prepend(tmp_path)
    return Site(tmp_path)


def test_where_nothing_is_installed_there_is_nothing(site: Site) -> None:
    assert installed_strategies() == {}


def test_an_installed_strategy_can_be_enabled_and_given_options(site: Site) -> None:
    site.install("acme-packing", PACKING)
    plugins = installed_strategies()
    assert list(plugins) == ["Packing"]
    text = b"enabledStrategies: [Packing]\npacking: {headroomPercent: 5}"
    policy = read_policy("policy.yaml", text, plugins)
    assert policy.plugin_options == {"Packing": plugins["Packing"].Options(headroom_percent=5.0)}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import nothing_of_this_name", "cannot be imported: ModuleNotFoundError: No module named"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
        ("", "cannot be imported: AttributeError"),
        ("Packing = 3", "3: expected a class"),
        ("class Packing: pass", "name None: expected a name such as 'BinPacking'"),
        ("class Packing: name = 'bin packing'", "name 'bin packing': expected a name"),
        (
            "class Packing: name = 'LoadBalancing'",
            "name 'LoadBalancing': a strategy that is built in has this name",
        ),
        (
            "class Packing: name = 'CpuThreshold'",
            "name 'CpuThreshold': cpuThreshold is an option that is built in",
        ),
        (
            "class Packing:\n  name = 'Packing'\n  Options = dict",
            "Options <class 'dict'>: expected a struct that derives from "
            "rescheduler.settings.Options",
        ),
    ],
)
def test_what_cannot_be_used_is_told_with_where_it_is_from(
    site: Site, code: str, expected: str
) -> None:
    site.install("acme-packing", code)
    with pytest.raises(SettingsError) as raised:
        installed_strategies()
    said = str(raised.value)
    assert said.startswith("distribution acme-packing, entry point packing (plugin_")
    assert expected in said


def test_two_strategies_of_one_name_are_refused(site: Site) -> None:
    site.install("acme-packing", PACKING)
    site.install("other-packing", PACKING)
    with pytest.raises(SettingsError) as raised:
        installed_strategies()
    said = str(raised.value)
    assert said.startswith("distribution other-packing, ")
    assert "distribution acme-packing, " in said
    assert said.endswith("has a strategy named Packing too")


def test_plugins_are_found_in_the_order_of_their_distributions(site: Site) -> None:
    site.install("zoo-stacking", PACKING.replace("Packing", "Stacking"), "stacking = {}:Stacking")
    site.install("acme-packing", PACKING)
    assert list(installed_strategies()) == ["Packing", "Stacking"]


def test_one_distribution_may_have_several_strategies(site: Site) -> None:
    both = PACKING + PACKING.replace("Packing", "Stacking")
    site.install("acme-packing", both, "packing = {0}:Packing\nstacking = {0}:Stacking")
    plugins = installed_strategies()
    text = b"enabledStrategies: [Packing, Stacking]\nstacking: {headroomPercent: 5}"
    policy = read_policy("policy.yaml", text, plugins)
    assert policy.enabled_strategies == ("Packing", "Stacking")
    assert policy.plugin_options == {
        "Packing": plugins["Packing"].Options(),  # type: ignore[attr-defined]
        "Stacking": plugins["Stacking"].Options(headroom_percent=5.0),  # type: ignore[attr-defined]
    }
