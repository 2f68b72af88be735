"""What is written about policies is what there is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rescheduler.cli.logs.json_format import TRACEBACK
from rescheduler.controller.events.node_events import NodeEvent
from rescheduler.extender.handlers import ALL_OVERLOADED
from rescheduler.files.policy_file import read_policy
from rescheduler.install.chart import default_in_words
from rescheduler.install.monitoring.alerts import ALERTS, Alert
from rescheduler.install.options import OPTIONS
from rescheduler.install.rights import READ, ROLES, SCHEDULER_ELECTING
from rescheduler.kube.event_correlator import LEFT_OUT
from rescheduler.log_context import MIGRATION_FIELD, UID_FIELD
from rescheduler.migration.state_machine.actions import MigrationEvent
from rescheduler.planning.strategies import STRATEGIES
from rescheduler.settings import Arguments, Options, Seconds, SecondsOrZero, StrategyName
from rescheduler.simulation.results.measurement.blockers import MEANINGS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
PAGES = [*READMES, *sorted(DOCS.glob("*.md"))]
ALL_PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
PLACES_OF_FILES = (
    "src",
    "tests",
    "testcluster",
    "benchmarks",
    "examples",
    "deploy",
    "charts",
    "docs",
)


def options_of(block: type[Options], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every option with its default as people write it; options of blocks with their path."""
    for field in msgspec.structs.fields(block):
        name = f"{prefix}{field.encode_name}"
        default = field.default_factory() if callable(field.default_factory) else field.default
        if isinstance(default, Options):
            yield from options_of(type(default), f"{name}.")
        else:
            yield name, in_words(default)


def in_words(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Seconds | SecondsOrZero):
        return f"{value:g}s"
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) or '""'


def test_the_reference_has_every_option_with_its_default() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \| \S", (DOCS / "policy.md").read_text(), re.M)
    assert sorted(rows) == sorted(options_of(Arguments))


def test_the_reference_has_every_blocker() -> None:
    section = (DOCS / "policy.md").read_text().partition("### Why a pod stays")[2]
    rows = re.findall(r"^\| `([A-Z]\w+)` \| \S", section.partition("\n## ")[0], re.M)
    assert rows == sorted({*MEANINGS, "DaemonSetPod", "StaticPod"})


@pytest.mark.parametrize("name", StrategyName)
def test_every_strategy_has_a_section_with_a_policy_that_enables_it(name: StrategyName) -> None:
    assert name in STRATEGIES
    text = (DOCS / "strategies.md").read_text()
    section = re.split(r"^## ", text, flags=re.M)
    (own,) = [each for each in section if each.startswith(f"{name}\n")]
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", own, re.M | re.S)
    assert name in read_policy("example", example.encode()).enabled_strategies


def test_the_reference_has_every_right_with_its_reason() -> None:
    text = (DOCS / "security.md").read_text()
    row = r"^\| `([\w./-]+)`: ([a-z, ]+?)(?: \(only .*\))? \| ([^|]+) \|(?: ([^|]+) \|)?$"
    rows = re.findall(row, text, re.M)
    rights = [right for role in (*ROLES, SCHEDULER_ELECTING) for right in role.rights]
    for *right, in_the_wrong_hands in rows:
        assert in_the_wrong_hands or right[1] == ", ".join(READ), right
    assert sorted(row[:3] for row in rows) == sorted(
        (f"{right.group}/{name}" if right.group else name, ", ".join(right.verbs), right.reason)
        for right in rights
        for name in right.resources
    )


def test_the_reference_has_every_value_of_the_chart() -> None:
    text = (DOCS / "deployment.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) \| (.*) \|$", text, re.M)
    assert rows == [
        (option.path, default_in_words(option), option.description) for option in OPTIONS
    ]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_a_runbook_and_an_entry_in_troubleshooting(alert: Alert) -> None:
    sections = re.split(r"^### ", (DOCS / "monitoring.md").read_text(), flags=re.M)
    (own,) = [each for each in sections if each.startswith(f"{alert.name}\n")]
    assert own.partition("\n\n")[2].startswith(f"*{alert.severity.capitalize()}.*")
    assert "\n- Look" in own
    assert re.search(r"^- (Look and do|Do)\b", own, re.M)
    file, _, anchor = alert.runbook.partition("#")
    assert (ROOT / file, anchor) == (DOCS / "monitoring.md", alert.name.lower())
    entry = f"[{alert.name}](monitoring.md#{anchor})"
    assert entry in (DOCS / "troubleshooting.md").read_text()


def test_the_reference_has_every_event() -> None:
    section = (DOCS / "logs-and-events.md").read_text().partition("## Events")[2]
    rows = re.findall(r"^\| `([A-Z]\w+)` \| \S", section.partition("\n## ")[0], re.M)
    assert rows == [*MigrationEvent, *NodeEvent, ALL_OVERLOADED, LEFT_OUT]


def test_the_reference_has_every_field_of_the_log() -> None:
    section = (DOCS / "logs-and-events.md").read_text().partition("### Fields")[2]
    rows = re.findall(r"^\| (`[^|]*`) \|", section.partition("\n## ")[0], re.M)
    found = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    added = {MIGRATION_FIELD, UID_FIELD, TRACEBACK}
    assert sorted(found) == sorted(added | logged_fields())


# They return fields of the log.
FIELDS_BY_FUNCTION = {"fields_of", "_names"}


def logged_fields() -> set[str]:
    """The keys of everything that is passed as `extra`, directly or by a variable of that name."""
    found: set[str] = set()
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text()
        if "getLogger" in text:
            for part in ast.walk(ast.parse(text)):
                found |= set(constant_keys(part))
    return found - {UID_FIELD}


def constant_keys(part: ast.AST) -> Iterator[str]:
    """The keys in a part of a program, if it makes up fields of the log."""
    if isinstance(part, ast.Assign | ast.AnnAssign | ast.AugAssign):
        target = part.targets[0] if isinstance(part, ast.Assign) else part.target
        is_item = isinstance(target, ast.Subscript)
        name = target.value if isinstance(target, ast.Subscript) else target
        if not (isinstance(name, ast.Name) and name.id == "extra"):
            return
        if is_item and isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            yield str(target.slice.value)
    elif isinstance(part, ast.FunctionDef):
        if part.name not in FIELDS_BY_FUNCTION:
            return
    elif not (isinstance(part, ast.keyword) and part.arg == "extra"):
        return
    for inner in ast.walk(part):
        keys = inner.keys if isinstance(inner, ast.Dict) else []
        yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_policies_that_are_shown_can_be_used(page: Path) -> None:
    for example in re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.M | re.S):
        if "keepFree" not in example:
            read_policy(page.name, example.encode())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_both_languages_name_the_same_commands_options_and_pages() -> None:
    english, chinese = (readme.read_text() for readme in READMES)
    for pattern in (r"`([^`\n]+)`", r"\]\(([^)]+\.(?:md|py|yaml))\)", r"(--[a-z-]+)"):
        found = [set(re.findall(pattern, text)) for text in (english, chinese)]
        own_link = {"README.md", "README.zh-CN.md"}
        assert found[0] - own_link == found[1] - own_link
    assert english.count("\n## ") == chinese.count("\n## ")


def files_of_the_project() -> set[str]:
    paths = (path for place in PLACES_OF_FILES for path in (ROOT / place).rglob("*"))
    found = {str(path.relative_to(ROOT)) for path in paths if "__pycache__" not in path.parts}
    return {*PLACES_OF_FILES, *found}


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    """A path may be named from the root, from the package, or by its end."""
    known = {f"/{path}" for path in files_of_the_project()}
    for name in re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|j2|css|jsonl|go))`", page.read_text()):
        assert any(path.endswith(f"/{name}") for path in known), f"{page.name} names {name}"
    for name in re.findall(r"`((?:[\w.-]+/)+)`", page.read_text()):
        folder = f"/{name.rstrip('/')}"
        assert any(path.endswith(folder) for path in known), f"{page.name} names {name}"
