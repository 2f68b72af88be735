"""From the arguments in a policy file to a policy, with advice where that does not work."""

from collections.abc import Mapping
from typing import Any

import msgspec

from rescheduler.files.conversion import BadValue, converted
from rescheduler.files.problems import InvalidValue, step
from rescheduler.model.quantities import EXPECTED as EXPECTED_QUANTITY
from rescheduler.model.quantities import BadQuantity, Quantity, nanos
from rescheduler.model.resources import is_counted
from rescheduler.model.selectors import BadSelector, parse_selector
from rescheduler.settings.policy import EXPECTED_SHAPE, Arguments, Policy, StrategyName
from rescheduler.settings.value_types import Amount, Options, Weight, custom_value

Plugins = Mapping[str, type]
"""Strategies that are not built in, by name: classes that may have `Options`."""

# Mappings with keys of the user's choice, and what they map to.
_FREE_MAPPINGS: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("strategyWeights",), Weight),
    (("costOptimization", "prices"), Amount),
    (("defragmentation", "shape"), Quantity),
)


def policy_from(args: dict[str, Any], path: str, plugins: Plugins) -> Policy:
    """The policy that these arguments make; `path` is where they are in their file."""
    # As every object of Kubernetes, the args of a plugin may say what they are.
    args = {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}
    _parse_selector(args, path)
    _check_strategies(args, path, (*StrategyName, *plugins))
    for keys, kind in _FREE_MAPPINGS:
        _check_values(args, keys, kind, path)
    arguments = converted(args, _arguments_type(plugins), path, custom_value)
    _check_shape(arguments, path)
    return Policy(
        **{field: getattr(arguments, field) for field in Arguments.__struct_fields__},
        plugin_options=_plugin_options(arguments, path, plugins),
    )


def options_key(strategy: str) -> str:
    """Where the options of a strategy stand: under its name in lower camel case."""
    return strategy[:1].lower() + strategy[1:]


def _parse_selector(args: dict[str, Any], path: str) -> None:
    selector = args.get("excludedPodSelector")
    if isinstance(selector, str):
        args["excludedPodSelector"] = _selector_from(selector, step(path, "excludedPodSelector"))
    elif selector == {}:
        del args["excludedPodSelector"]


def _selector_from(text: str, path: str) -> dict[str, Any] | None:
    try:
        return msgspec.to_builtins(parse_selector(text)) or None
    except BadSelector as error:
        raise BadValue(InvalidValue(path, str(error))) from error


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


def _check_values(args: Any, keys: tuple[str, ...], kind: Any, path: str) -> None:
    """Check a free mapping value by value: else the message could not tell which is at fault."""
    for key in keys:
        args, path = (args.get(key) if isinstance(args, dict) else None), step(path, key)
    for key, value in args.items() if isinstance(args, dict) else ():
        converted(value, kind, step(path, key))


def _check_shape(arguments: Arguments, path: str) -> None:
    shape, path = arguments.defragmentation.shape, step(step(path, "defragmentation"), "shape")
    if arguments.lacks_shape:
        raise BadValue(InvalidValue(path, f"missing, expected {EXPECTED_SHAPE}"))
    for resource, quantity in shape.items():
        place = step(path, resource)
        if not is_counted(resource):
            raise BadValue(
                InvalidValue(place, "unknown, expected such as cpu, memory, nvidia.com/gpu")
            )
        try:
            is_something = nanos(quantity) > 0
        except BadQuantity as error:
            raise BadValue(InvalidValue(place, EXPECTED_QUANTITY, quantity)) from error
        if not is_something:
            raise BadValue(InvalidValue(place, "expected more than 0", quantity))


def _arguments_type(plugins: Plugins) -> type[Arguments]:
    """Our arguments and, next to them, the options of plugins."""
    fields: list[tuple[str, Any, None]] = [
        (options_key(name), options | None, None) for name, options in _option_types(plugins)
    ]
    made = msgspec.defstruct("Arguments", fields, bases=(Arguments,), frozen=True)
    assert issubclass(made, Arguments)
    return made


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
