"""Imports point one way, so that what decides stays apart from what acts."""

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from rescheduler import labels
from rescheduler.settings import StrategyName

SOURCES = Path(__file__).parent.parent / "src" / "rescheduler"

COMMON = {"errors", "labels"}
"""What every package may import."""

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "labels": set(),
    "log_context": set(),
    "process_memory": set(),
    "model": set(),
    "settings": {"model"},
    "files": {"settings", "model"},
    "planning": {"settings", "model"},
    "kube": {"files", "model"},
    "migration": {"log_context", "kube", "planning", "settings", "model"},
    "controller": {"log_context", "migration", "kube", "planning", "settings", "model"},
    "serving": set(),
    "extender": {"log_context", "serving", "migration", "kube", "planning", "settings", "model"},
    "install": {"extender", "migration", "kube", "planning", "settings", "model"},
    "doctor": {"install", "controller", "extender", "migration", "kube", "model"},
    "simulation": {"controller", "migration", "kube", "planning", "files", "settings", "model"},
    "tracing": {"controller", "migration"},
    "plugins": {"planning", "files", "settings", "model"},
    "status": {"controller", "migration", "kube", "planning", "model"},
    "monitoring": {
        "serving",
        "controller",
        "extender",
        "migration",
        "kube",
        "planning",
        "settings",
        "model",
    },
    "cli": {
        "plugins",
        "monitoring",
        "tracing",
        "status",
        "doctor",
        "install",
        "simulation",
        "extender",
        "controller",
        "migration",
        "kube",
        "planning",
        "files",
        "settings",
        "model",
        "log_context",
        "process_memory",
    },
}
"""By package or module: which others of ours it may import."""

LAYERS_INSIDE: dict[str, list[set[str]]] = {
    "model": [
        {"tables"},
        {"snapshot"},
        {"pod_templates", "unreadable_objects"},
        {"kinds", "resources", "rules", "selected_labels", "selectors"},
        {"objects"},
        {"move_labels"},
        {"json_decoder", "moves", "names", "numbering", "quantities", "uids"},
    ],
    "settings": [{"policy"}, {"migration"}, {"value_types"}, {"int_or_percent"}],
    "files": [
        {"cluster_file"},
        {"object_documents", "policy_file"},
        {"conversion", "object_checks"},
        {"anonymizer", "documents", "local_files"},
        {"yaml_limits"},
        {"bad_document", "invalid_value", "well_known"},
    ],
    "planning": [
        {"planner"},
        {"plan_report", "explanation", "unchanged_until"},
        {"pods_to_relieve"},
        {"step_changes"},
        {"search"},
        {"problem"},
        {"strategies", "assessment"},
        {"movability", "node_load"},
        {"context", "node_prices", "plan", "planning_time", "safety_checks"},
        {"feasibility"},
    ],
    "kube": [
        {"live_store"},
        {"listwatch", "client", "event_recorder", "server_features"},
        {"api_server", "api_errors", "object_decoding", "transport"},
        {
            "auth",
            "backoff",
            "clock",
            "event_correlator",
            "request",
            "watch_events",
            "write_fence",
        },
    ],
    "migration": [
        {"leftover_cleanup"},
        {"observer", "executor"},
        {"services"},
        {"state_machine"},
        {"replacement", "migration_watches"},
        {"new_pod", "workload_cache", "workload_findings", "read_your_writes"},
        {"memory"},
        {"migration_labels", "crd", "migration_request"},
        {"migration_object", "moving_pod", "workload_objects"},
    ],
    "controller": [
        {"program"},
        {"migration_controller", "planning_loop", "drain"},
        {
            "change_handlers",
            "controller_observer",
            "move_requests",
            "overload_trigger",
            "round_cache",
            "stale_migrations",
        },
        {
            "cordons",
            "in_flight_limiter",
            "leader_election",
            "events",
            "past_moves",
            "watch_index",
            "work_queue",
        },
    ],
    "serving": [
        {"http_serving"},
        {"listener", "request_limits", "server_thread", "shared_answer"},
        {"refusals"},
    ],
    "extender": [
        {"serve_program"},
        {"extender_server"},
        {"http_server"},
        {"handlers", "webhook", "client_authorization"},
        {"scheduling_response"},
        {"scheduling_request"},
        {"assumed_pods", "prioritize", "retries", "waiting_migrations"},
        {"filter", "replacement_marker"},
        {"live_node_loads", "protocol", "tls", "serving_observer"},
    ],
    "monitoring": [{"monitoring"}, {"health", "metrics", "monitoring_server"}],
    "tracing": [{"switch"}, {"span_exporter"}, {"migration_spans"}],
    "status": [
        {"replica_report", "status_reader"},
        {"cluster_load", "leader_endpoint", "migration_report", "round_report"},
        {"port_forward", "reasons", "status_document"},
    ],
    "doctor": [
        {"checkup"},
        {"installation", "lease_check", "rights_check", "webhook_check"},
        {"findings"},
    ],
    "install": [
        {"chart", "kustomize"},
        {"manifests"},
        {"scheduler_objects"},
        {"controller_objects", "roles"},
        {"admission_policies", "certificate_objects", "monitoring", "people_rights", "pods"},
        {"options", "rights"},
        {"metadata"},
        {"policy_schema", "tree"},
    ],
    "simulation": [{"simulation"}, {"results"}, {"scenario"}, {"cluster"}, {"simulated_time"}],
    "cli": [
        {"application"},
        {"commands"},
        {"election", "migration_follower", "signals", "stopping_pods"},
        {"views", "inputs", "connection", "policies", "local_controller"},
        {"election_options", "options", "serve_options", "strategy_plugins", "logs"},
        {"completion", "control_characters", "log_options"},
    ],
}
"""Inside a package, from the top down: nothing imports what is in a higher layer."""

PURE_PACKAGES = ("model", "settings", "planning", "migration.state_machine")
"""What decides: it reads no clock and talks to nobody."""

PURE_FILES = (
    "migration/crd.py",
    "migration/memory/move_filter.py",
    "migration/memory/move_record.py",
    "migration/memory/move_record_crd.py",
    "migration/memory/record_retention.py",
    "migration/migration_object.py",
    "migration/new_pod.py",
    "migration/replacement.py",
    "migration/workload_findings.py",
    "migration/workload_objects.py",
    "migration/migration_labels.py",
    "controller/cordons.py",
    "controller/leader_election/lease_object.py",
    "controller/leader_election/lease_timing.py",
    "controller/in_flight_limiter.py",
    "controller/past_moves.py",
    "controller/watch_index.py",
    "status/migration_report.py",
    "status/reasons.py",
    "status/round_report.py",
    "status/status_document.py",
    "extender/filter.py",
    "extender/prioritize.py",
    "extender/webhook/steering.py",
)
"""Single files that decide, in packages that act."""

IMPURE = {"asyncio", "aiohttp", "logging", "time", "random", "socket", "subprocess", "threading"}

PACKAGES = sorted(str(path.parent.relative_to(SOURCES)) for path in SOURCES.rglob("__init__.py"))


def modules_below(place: str) -> list[Path]:
    single = SOURCES / f"{place}.py"
    return [single] if single.exists() else sorted((SOURCES / place).rglob("*.py"))


def dotted(module: Path) -> str:
    name = ".".join(module.relative_to(SOURCES.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


ALL_MODULES = {dotted(module): module for module in SOURCES.rglob("*.py")}


@cache
def imported_by(module: Path) -> set[str]:
    """The modules that a module imports, also those imported for types only or inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            name = node.module or ""
            submodules = {f"{name}.{alias.name}" for alias in node.names} & ALL_MODULES.keys()
            found.update(submodules)
            if len(submodules) < len(node.names):
                found.add(name)
    return found


def ours_imported_by(module: Path) -> set[str]:
    return {name for name in imported_by(module) if name in ALL_MODULES and name != "rescheduler"}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_lies_below_it(package: str) -> None:
    allowed = {package, *COMMON, *MAY_IMPORT[package]} if package not in COMMON else {package}
    for module in modules_below(package):
        for name in ours_imported_by(module):
            assert name.split(".")[1] in allowed, f"{module} imports {name}"


def test_every_package_and_module_has_its_place() -> None:
    top = {path.stem for path in SOURCES.iterdir() if not path.stem.startswith("_")}
    assert top - {"py"} == MAY_IMPORT.keys()


@pytest.mark.parametrize("package", LAYERS_INSIDE)
def test_every_part_of_a_package_is_in_one_of_its_layers(package: str) -> None:
    layered = [part for layer in LAYERS_INSIDE[package] for part in layer]
    parts = [path.stem for path in (SOURCES / package).iterdir() if not path.stem.startswith("__")]
    assert sorted(layered) == sorted(parts)


def test_every_package_has_layers() -> None:
    assert {path.name for path in SOURCES.iterdir() if path.is_dir()} - {"__pycache__"} == (
        LAYERS_INSIDE.keys()
    )


@pytest.mark.parametrize("package", LAYERS_INSIDE)
def test_nothing_inside_a_package_imports_a_higher_layer(package: str) -> None:
    height = {part: -depth for depth, parts in enumerate(LAYERS_INSIDE[package]) for part in parts}
    for part in height:
        modules = modules_below(f"{package}/{part}")
        assert modules, f"{package} has no {part}"
        for module in modules:
            for name in ours_imported_by(module):
                _, top, *rest = name.split(".")
                if top == package and rest and rest[0] in height:
                    assert height[rest[0]] <= height[part], f"{module} imports {name}"


def test_no_two_files_import_each_other() -> None:
    graph = {name: ours_imported_by(module) - {name} for name, module in ALL_MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("package", PURE_PACKAGES)
def test_decisions_are_pure(package: str) -> None:
    for module in modules_below(package.replace(".", "/")):
        assert_is_pure(module)


@pytest.mark.parametrize("file", PURE_FILES)
def test_single_files_that_decide_are_pure(file: str) -> None:
    assert_is_pure(SOURCES / file)


def assert_is_pure(module: Path) -> None:
    imported = imported_by(module)
    impure = {name.split(".")[0] for name in imported} & IMPURE
    assert not impure, f"{module} imports {impure}"
    assert not any(name.startswith("rescheduler.kube") for name in imported), module
    assert "open(" not in module.read_text(), f"{module} opens files"


STRATEGY_FILES = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in StrategyName}
OTHER_MEANINGS = ("PodTopologySpread", "TopologySpreadConstraint", "topology_spread")
"""What Kubernetes calls by a name that contains that of a strategy."""


def test_the_core_names_no_strategy() -> None:
    """Strategies of other people are first class only if those built in are not special."""
    allowed = [SOURCES / "planning" / "strategies", SOURCES / "settings"]
    for module in SOURCES.rglob("*.py"):
        if any(module.is_relative_to(place) for place in allowed):
            continue
        for name in imported_by(module):
            imported = name.removeprefix("rescheduler.planning.strategies.")
            assert imported not in STRATEGY_FILES, f"{module} imports {name}"
        text, names = module.read_text(), (*StrategyName, *STRATEGY_FILES)
        if not any(name in text for name in names):
            continue
        for node in ast.walk(ast.parse(text)):
            for word in words_of(node):
                for other in OTHER_MEANINGS:
                    word = word.replace(other, "")
                found = {name for name in names if name in word}
                assert not found, f"{module}:{getattr(node, 'lineno', 0)} names {found}"


def words_of(node: ast.AST) -> list[str]:
    """The identifiers and strings of one node of a syntax tree."""
    if isinstance(node, ast.ImportFrom | ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    return [getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "arg", "") or ""]


def test_every_label_key_stands_in_one_place() -> None:
    keys = {
        key
        for name, value in vars(labels).items()
        if name.isupper()
        for key in (value if isinstance(value, tuple) else (value,))
    }
    domains = {key[: key.index("/") + 1] for key in keys if "/" in key}
    for module in SOURCES.rglob("*.py"):
        if module.name == "labels.py":
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Constant) and node.value in keys:
                pytest.fail(f"{module}:{node.lineno} spells out {node.value!r}")
            if isinstance(node, ast.JoinedStr):
                for part in node.values:
                    if isinstance(part, ast.Constant) and part.value in domains:
                        pytest.fail(f"{module}:{node.lineno} builds a key of {part.value!r}")


SAME_NAME_AS_KUBE_SCHEDULER = (
    SOURCES / "planning" / "feasibility" / "plugins",
    SOURCES / "simulation" / "cluster" / "scheduler" / "plugins",
)
"""Filter plugins and score plugins carry the names that kube-scheduler gives both of them."""


def test_a_name_stands_for_one_class() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in SOURCES.rglob("*.py"):
        if module.parent not in SAME_NAME_AS_KUBE_SCHEDULER:
            for node in ast.parse(module.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(dotted(module))
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_belongs_in_it(package: str) -> None:
    docstring = ast.get_docstring(ast.parse((SOURCES / package / "__init__.py").read_text()))
    assert docstring is not None
    assert len(docstring) > 60


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_small_enough_to_be_read_at_a_glance(package: str) -> None:
    assert len(list((SOURCES / package).glob("*.py"))) <= 16


def test_every_file_of_tests_has_a_name_of_its_own() -> None:
    """Its name is the name of its module, whatever folder it is in."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
