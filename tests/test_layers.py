"""Imports point one way, so that what decides stays apart from what acts."""

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src" / "rescheduler"

MAY_IMPORT = {
    "model": {"model", "errors", "labels"},
    "planning": {"planning", "model", "errors", "labels", "settings"},
    "kube": {"kube", "model", "errors", "labels"},
    "migration": {"migration", "kube", "planning", "model", "errors", "labels", "settings"},
    "scheduler": {
        "scheduler",
        "migration",
        "kube",
        "planning",
        "model",
        "errors",
        "labels",
        "settings",
    },
    "simulation": {
        "simulation",
        "migration",
        "kube",
        "planning",
        "model",
        "errors",
        "labels",
        "settings",
    },
    "settings": {"settings", "model", "errors", "labels"},
    "errors": set(),
    "labels": set(),
}
"""By package or module: what of ours it may import. The command line may import anything."""

PURE_PARTS_OF_MIGRATION = (
    "actions",
    "copies",
    "cordons",
    "crd",
    "diagnosis",
    "eviction",
    "handoff",
    "history",
    "limits",
    "machine",
    "marks",
    "objects",
    "observation",
    "places",
    "pods",
    "progress",
    "recreation",
    "templates",
    "undoing",
    "ways",
)
"""What decides how a move is carried out; the rest of migration carries it out."""

IMPURE = {"asyncio", "aiohttp", "logging", "time", "random", "socket", "subprocess", "threading"}
"""What planning and the model must do without: they read no clock and talk to nobody."""


def modules_of(layer: str) -> list[Path]:
    single = SOURCES / f"{layer}.py"
    return [single] if single.exists() else sorted((SOURCES / layer).rglob("*.py"))


def imported_by(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_a_layer_imports_only_what_lies_below_it(layer: str) -> None:
    for module in modules_of(layer):
        for name in imported_by(module):
            if name.startswith("rescheduler."):
                assert name.split(".")[1] in MAY_IMPORT[layer], f"{module} imports {name}"


@pytest.mark.parametrize("layer", ["model", "planning", "settings"])
def test_decisions_are_pure(layer: str) -> None:
    for module in modules_of(layer):
        impure = {name.split(".")[0] for name in imported_by(module)} & IMPURE
        assert not impure, f"{module} imports {impure}"
        assert "open(" not in module.read_text(), f"{module} opens files"


PURE_PARTS_OF_SCHEDULER = ("filtering", "planned", "scoring", "steering")
"""What decides where pods may go; the rest of the scheduler side listens and answers."""


@pytest.mark.parametrize("part", PURE_PARTS_OF_SCHEDULER)
def test_where_pods_may_go_is_decided_purely(part: str) -> None:
    module = SOURCES / "scheduler" / f"{part}.py"
    assert not {name.split(".")[0] for name in imported_by(module)} & IMPURE


@pytest.mark.parametrize("part", PURE_PARTS_OF_MIGRATION)
def test_how_a_move_is_carried_out_is_decided_purely(part: str) -> None:
    module = SOURCES / "migration" / f"{part}.py"
    imported = imported_by(module)
    assert not {name.split(".")[0] for name in imported} & IMPURE, f"{module} is not pure"
    ours = {name.split(".")[2] for name in imported if name.startswith("rescheduler.migration.")}
    assert ours <= set(PURE_PARTS_OF_MIGRATION), f"{module} imports what acts: {ours}"
    assert not any(name.startswith("rescheduler.kube") for name in imported)


@pytest.mark.parametrize(
    "package", ["model", "planning", "kube", "migration", "scheduler", "simulation", "cli"]
)
def test_a_package_says_what_belongs_in_it(package: str) -> None:
    docstring = ast.get_docstring(ast.parse((SOURCES / package / "__init__.py").read_text()))
    assert docstring is not None
    assert len(docstring) > 80
