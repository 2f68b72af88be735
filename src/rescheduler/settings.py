# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Every option, its default, and why.

The policy file is a `KubeSchedulerConfiguration` in which some profile has a `pluginConfig` named
`Rescheduler`; what else it configures is the scheduler's business and ignored here. The `args` of
that entry alone, as YAML or JSON, will do as well. An empty file means the defaults.

Strategies may have options of their own: a struct that derives from `Options`, as a field of
`Policy`. Reading it, refusing what it does not know, and telling where a mistake is come with it.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rescheduler.errors import SettingsError
from rescheduler.model.converting import BadValue, converted
from rescheduler.model.documents import BadDocument, yaml_documents
from rescheduler.model.objects import LabelSelector, Requirement
from rescheduler.model.problems import Problem, step
from rescheduler.model.selectors import BadSelector, parse_selector

API_VERSION = "kubescheduler.config.k8s.io/v1"
CONFIGURATION_KIND = "KubeSchedulerConfiguration"
PLUGIN = "Rescheduler"
ARGUMENTS_KIND = "ReschedulerArgs"

EXPECTED_DURATION = "expected a duration such as '30s', '1m30s' or '500ms', longer than zero"
_UNIT_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|us|µs|ns|h|m|s)", re.ASCII)

Percent = Annotated[float, Meta(ge=0, le=100, description="a percentage from 0 to 100")]
Count = Annotated[int, Meta(ge=0, description="a whole number, 0 or more")]
PERCENT_TEXT = r"^(100|[1-9]?[0-9])%$"
NumberOrPercent = (
    Annotated[int, Meta(ge=0, description="a whole number or a percentage such as '25%'")]
    | Annotated[
        str, Meta(pattern=PERCENT_TEXT, description="a whole number or a percentage such as '25%'")
    ]
)


class Seconds(float):
    """A length of time, which files write as Go does: `1m30s`."""


class StrategyName(StrEnum):
    """The strategies there are."""

    LOAD_BALANCING = "LoadBalancing"
    """Moves pods from loaded to less loaded nodes until the cluster is balanced."""
    RESOURCE_OPTIMIZATION = "ResourceOptimization"
    """Relieves nodes above `cpuThreshold` or `memoryThreshold` until they are below."""
    NODE_MAINTENANCE = "NodeMaintenance"
    """Empties nodes that are labelled for maintenance."""


class Options(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A block of options; one that is not known is refused, for it is most likely misspelt."""


class SelectorExpression(Requirement, frozen=True, forbid_unknown_fields=True):
    """An expression of a selector in a policy, with operators that exist."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]


class PodSelector(LabelSelector, frozen=True, forbid_unknown_fields=True):
    """A label selector in a policy: stricter than one that the API server has checked."""

    match_expressions: tuple[SelectorExpression, ...] = ()


class TemporaryBudget(Options, frozen=True):
    """How a workload without a disruption budget is protected while one of its pods is evicted.

    A number or a percentage of its pods; if both are given, `minAvailable` counts."""

    min_available: NumberOrPercent | None = None
    max_unavailable: NumberOrPercent = 1


class MigrationOptions(Options, frozen=True):
    """How moves are carried out: how many at once, how patiently, and what is allowed."""

    max_in_flight: Count = 20
    """How many migrations run at the same time. 0 starts none. A higher number is done sooner,
    with more pods starting, and more load on the API server, at once."""

    max_per_node: Count = 5
    """How many of them may leave the same node, or come to it. Starting pods load a node: images
    are pulled, caches are cold."""

    max_per_namespace: Count = 20
    """How many of them may be in the same namespace."""

    max_per_workload: NumberOrPercent = "25%"
    """How many of them may move pods of the same workload: a number, or a percentage of its
    replicas, of which at least one may always move."""

    max_retries: Count = 3
    """How often a migration that failed and was undone is tried again."""

    retry_delay_seconds: Seconds = msgspec.field(default=Seconds(10), name="retryDelay")
    """How long to wait before the first of these tries; each further wait is twice as long."""

    timeout_seconds: Seconds = msgspec.field(default=Seconds(120), name="timeout")
    """How long each step may take, such as a new pod until it is Ready. `minReadySeconds` comes
    on top. Slow starters need more; meanwhile the pod takes up room twice."""

    keep_seconds: Seconds = msgspec.field(default=Seconds(3600), name="keepFinished")
    """How long finished Migrations are kept. They are also the planner's memory of what did not
    work; a longer time remembers more and keeps more objects."""

    bare_pods: bool = False
    """Whether pods without a controller may be replaced by a copy on another node. What they
    have written to their node is lost."""

    deployment_coordination: bool = False
    """Whether a Deployment's pod that does not fit beside its successor may be evicted instead,
    under a temporary disruption budget if it has none."""

    temporary_budget: TemporaryBudget = TemporaryBudget()
    """That budget."""

    cleanup_delay_seconds: Annotated[float, Meta(ge=0, description="seconds, 0 or more")] = (
        msgspec.field(default=0.0, name="cleanupDelaySeconds")
    )
    """How long that budget stays after the replacement is Ready."""

    workers: Annotated[int, Meta(ge=1, le=100, description="a number from 1 to 100")] = 10
    """How many migrations are looked at at the same time. Most only wait, so few will do."""


class Policy(Options, frozen=True):
    """What to improve, how far to go, and what to leave alone."""

    rescheduling_interval_seconds: Seconds = msgspec.field(
        default=Seconds(30), name="reschedulingInterval"
    )
    """How long to wait from one round to the next. A shorter wait reacts sooner and costs the
    planning time of more rounds; moves of the last round may then still be under way."""

    enabled_strategies: tuple[StrategyName, ...] = (
        StrategyName.LOAD_BALANCING,
        StrategyName.RESOURCE_OPTIMIZATION,
    )
    """What is worth changing. With none enabled, nothing is ever moved."""

    cpu_threshold: Percent = 80.0
    """ResourceOptimization relieves nodes whose CPU is used to a higher percentage than this. At
    0, every node that runs anything is too full; a higher one leaves less room for peaks."""

    memory_threshold: Percent = 80.0
    """The same for memory. A node that runs out of it kills pods, so be careful with values
    close to 100."""

    imbalance_threshold: Percent = 20.0
    """LoadBalancing acts when the most and the least loaded node are further apart than this, in
    percentage points. At 0 it never rests; a higher one moves fewer pods and evens out less."""

    max_reschedule_pods: Count = 10
    """How many pods a round moves at most. 0 means none: plans then only say why. A higher
    number gets there in fewer rounds, with more pods restarting at the same time."""

    excluded_namespaces: tuple[str, ...] = ("kube-system", "kube-public")
    """Pods in these namespaces stay where they are. An empty list excludes none; system pods
    are left alone even so."""

    excluded_pod_selector: PodSelector | None = None
    """Pods with such labels stay where they are: `app=web,tier in (a,b),!legacy`, or a mapping
    with `matchLabels` and `matchExpressions`. None, and an empty one, exclude no pods."""

    migration: MigrationOptions = MigrationOptions()
    """How moves are carried out."""


class _PluginConfig(msgspec.Struct):
    name: str
    args: dict[str, Any] = {}


class _Profile(msgspec.Struct, rename="camel"):
    plugin_config: tuple[_PluginConfig, ...] = ()


class _Configuration(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    profiles: tuple[_Profile, ...] = ()


def read_policy(name: str, data: bytes) -> Policy:
    """The policy in a file, given its name and its content."""
    try:
        return _policy_in(yaml_documents(data))
    except (BadDocument, BadValue) as error:
        raise SettingsError(f"{name}: {error}") from error


def seconds_of(text: object) -> Seconds:
    """The length of a duration as Go writes it; raises ValueError if it is none."""
    parts = _DURATION_PART.findall(text) if isinstance(text, str) else []
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(EXPECTED_DURATION)
    seconds = Seconds(sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts))
    if seconds <= 0:
        raise ValueError(EXPECTED_DURATION)
    return seconds


def _policy_in(documents: list[Any]) -> Policy:
    if not documents:
        return Policy()
    if len(documents) > 1:
        raise BadValue(Problem("", f"{len(documents)} documents: expected one"))
    content = documents[0]
    if not isinstance(content, dict):
        raise BadValue(
            Problem("", f"expected a {CONFIGURATION_KIND} or the args of {PLUGIN}", content)
        )
    is_configuration = content.keys() & {"apiVersion", "kind", "profiles"}
    if is_configuration and content.get("kind") != ARGUMENTS_KIND:
        path, args = _plugin_args(content)
        return _policy_from(args, path)
    return _policy_from(content, "")


def _plugin_args(content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The args of the one entry that is ours, and where they are."""
    configuration = converted(content, _Configuration)
    for field, expected in (("api_version", API_VERSION), ("kind", CONFIGURATION_KIND)):
        value = getattr(configuration, field)
        if value != expected:
            path = "apiVersion" if field == "api_version" else field
            raise BadValue(Problem(path, f"expected {expected}", value))
    ours = [entry for entry in _plugin_configs(configuration) if entry[1].name == PLUGIN]
    if not ours:
        names = [entry.name for _, entry in _plugin_configs(configuration)]
        found = f"found only {', '.join(names)}" if names else "found none"
        raise BadValue(Problem("profiles", f"expected a pluginConfig named {PLUGIN}, {found}"))
    if len(ours) > 1:
        places = " and ".join(path for path, _ in ours)
        raise BadValue(
            Problem("profiles", f"expected one pluginConfig named {PLUGIN}, not {places}")
        )
    path, entry = ours[0]
    return f"{path}.args", entry.args


def _plugin_configs(configuration: _Configuration) -> Iterator[tuple[str, _PluginConfig]]:
    for number, profile in enumerate(configuration.profiles):
        for index, entry in enumerate(profile.plugin_config):
            yield f"profiles[{number}].pluginConfig[{index}]", entry


def _policy_from(args: dict[str, Any], path: str) -> Policy:
    # As every object of Kubernetes, the args of a plugin may say what they are.
    args = {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}
    selector = args.get("excludedPodSelector")
    if isinstance(selector, str):
        args["excludedPodSelector"] = _selector_from(selector, step(path, "excludedPodSelector"))
    elif selector == {}:
        del args["excludedPodSelector"]
    policy = converted(args, Policy, path, _custom)
    strategies = policy.enabled_strategies
    for number, strategy in enumerate(strategies):
        if strategy in strategies[:number]:
            place = f"{step(path, 'enabledStrategies')}[{number}]"
            raise BadValue(Problem(place, "expected each strategy once", str(strategy)))
    return policy


def _custom(kind: Any, value: Any) -> Any:
    assert kind is Seconds, f"no option is a {kind}"
    return seconds_of(value)


def _selector_from(text: str, path: str) -> dict[str, Any] | None:
    try:
        return msgspec.to_builtins(parse_selector(text)) or None
    except BadSelector as error:
        raise BadValue(Problem(path, str(error))) from error
