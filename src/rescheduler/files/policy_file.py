"""From a policy file to a policy.

The file is a `KubeSchedulerConfiguration` in which one profile has a `pluginConfig` named
`Rescheduler`; everything else in it is for kube-scheduler and ignored here. The `args` of that
entry alone, as YAML or JSON, are accepted as well. An empty file means the defaults.

`documents` parses the file, `conversion` turns the arguments into the structs of `settings`, and
what types cannot say about the arguments is checked here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rescheduler.errors import SettingsError
from rescheduler.files.bad_document import BadDocument
from rescheduler.files.conversion import converted
from rescheduler.files.documents import yaml_documents
from rescheduler.files.invalid_value import BadValue, InvalidValue, step
from rescheduler.model.selectors import BadSelector, parse_selector
from rescheduler.settings import Arguments, Options, Policy, StrategyName
from rescheduler.settings.value_types import custom_value

API_VERSION = "kubescheduler.config.k8s.io/v1"
CONFIGURATION_KIND = "KubeSchedulerConfiguration"
PLUGIN = "Rescheduler"
ARGUMENTS_KIND = "ReschedulerArgs"

Plugins = Mapping[str, type]
"""Strategies that are not built in, by name: classes that may have `Options`."""


def read_policy(name: str, data: bytes, plugins: Mapping[str, type] = {}) -> Policy:
    """The policy in a file, given its name, its content, and the strategies of plugins by name."""
    try:
        args, path = _arguments_in(yaml_documents(data, with_exponents=True))
        return _policy_from(args, path, plugins)
    except (BadDocument, BadValue) as error:
        raise SettingsError(f"{name}: {error}") from error


def is_empty(data: bytes) -> bool:
    """Whether a policy file says nothing: it has no content, or only comments."""
    try:
        return not yaml_documents(data)
    except BadDocument:
        return False


def options_key(strategy: str) -> str:
    """The key of a strategy's options in the arguments: its name in lower camel case."""
    return strategy[:1].lower() + strategy[1:]


# ------------------------------------------------------------ where the arguments are


class _PluginConfig(msgspec.Struct):
    name: str
    args: dict[str, Any] = {}


class _Profile(msgspec.Struct, rename="camel"):
    plugin_config: tuple[_PluginConfig, ...] = ()


class _Configuration(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    profiles: tuple[_Profile, ...] = ()


def _arguments_in(documents: list[Any]) -> tuple[dict[str, Any], str]:
    """Our arguments, and where in the file they are."""
    if not documents:
        return {}, ""
    if len(documents) > 1:
        raise BadValue(InvalidValue("", f"{len(documents)} documents: expected one"))
    content = documents[0]
    if not isinstance(content, dict):
        raise BadValue(
            InvalidValue("", f"expected a {CONFIGURATION_KIND} or the args of {PLUGIN}", content)
        )
    is_configuration = content.keys() & {"apiVersion", "kind", "profiles"}
    if is_configuration and content.get("kind") != ARGUMENTS_KIND:
        return _plugin_args(content)
    return content, ""


def _plugin_args(content: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The args of the one entry that is ours, and where they are."""
    configuration = converted(content, _Configuration)
    for field, value, expected in (
        ("apiVersion", configuration.api_version, API_VERSION),
        ("kind", configuration.kind, CONFIGURATION_KIND),
    ):
        if value != expected:
            raise BadValue(InvalidValue(field, f"expected {expected}", value))
    entries = list(_plugin_configs(configuration))
    ours = [(path, entry) for path, entry in entries if entry.name == PLUGIN]
    if not ours:
        names = ", ".join(entry.name for _, entry in entries)
        found = f"found only {names}" if names else "found none"
        raise BadValue(InvalidValue("profiles", f"expected a pluginConfig named {PLUGIN}, {found}"))
    if len(ours) > 1:
        paths = " and ".join(path for path, _ in ours)
        raise BadValue(
            InvalidValue("profiles", f"expected one pluginConfig named {PLUGIN}, not {paths}")
        )
    path, entry = ours[0]
    return entry.args, f"{path}.args"


def _plugin_configs(configuration: _Configuration) -> Iterator[tuple[str, _PluginConfig]]:
    for number, profile in enumerate(configuration.profiles):
        for index, entry in enumerate(profile.plugin_config):
            yield f"profiles[{number}].pluginConfig[{index}]", entry


# ------------------------------------------------------------ from arguments to a policy


def _policy_from(args: dict[str, Any], path: str, plugins: Plugins) -> Policy:
    """The policy that these arguments describe; `path` is where they are in the file."""
    # As in every Kubernetes object, the args of a plugin may have a kind.
    args = {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}
    _parse_selector(args, path)
    _check_strategies(args, path, (*StrategyName, *plugins))
    arguments = converted(args, _arguments_type(plugins), path, custom_value)
    return Policy(
        **{field: getattr(arguments, field) for field in Arguments.__struct_fields__},
        plugin_options=_plugin_options(arguments, path, plugins),
    )


def _parse_selector(args: dict[str, Any], path: str) -> None:
    """Turn a selector that is text into a mapping; an empty one is the same as none."""
    selector = args.get("excludedPodSelector")
    if isinstance(selector, str):
        try:
            args["excludedPodSelector"] = msgspec.to_builtins(parse_selector(selector)) or None
        except BadSelector as error:
            problem = InvalidValue(step(path, "excludedPodSelector"), str(error))
            raise BadValue(problem) from error
    elif selector == {}:
        del args["excludedPodSelector"]


def _check_strategies(args: dict[str, Any], path: str, known: tuple[str, ...]) -> None:
    expected = f"expected one of {', '.join(known)}"
    enabled = args.get("enabledStrategies")
    enabled = enabled if isinstance(enabled, list) else []
    for number, name in enumerate(enabled):
        place = f"{step(path, 'enabledStrategies')}[{number}]"
        if name not in known:
            raise BadValue(InvalidValue(place, expected, name))
        if name in enabled[:number]:
            raise BadValue(InvalidValue(place, "expected each strategy once", name))
    weights = args.get("strategyWeights")
    for name in weights if isinstance(weights, dict) else ():
        if name not in known:
            place = step(step(path, "strategyWeights"), name)
            raise BadValue(InvalidValue(place, f"unknown, {expected}"))


def _arguments_type(plugins: Plugins) -> type[Arguments]:
    """Our arguments and, next to them, the options of plugins."""
    fields: list[tuple[str, Any, None]] = [
        (options_key(name), options | None, None) for name, options in _option_types(plugins)
    ]
    with_plugins = msgspec.defstruct("Arguments", fields, bases=(Arguments,), frozen=True)
    assert issubclass(with_plugins, Arguments)
    return with_plugins


def _plugin_options(arguments: Arguments, path: str, plugins: Plugins) -> dict[str, Options]:
    found = {}
    for name, kind in _option_types(plugins):
        key = options_key(name)
        options = getattr(arguments, key)
        if options is None and name in arguments.enabled_strategies:
            # Not simply the defaults: there may be an option that has none.
            options = converted({}, kind, step(path, key), custom_value)
        if options is not None:
            found[name] = options
    return found


def _option_types(plugins: Plugins) -> list[tuple[str, type[Options]]]:
    return [
        (name, options)
        for name, strategy in plugins.items()
        if (options := getattr(strategy, "Options", None)) is not None
    ]
