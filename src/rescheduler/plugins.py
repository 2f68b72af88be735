"""Strategies of other people: what is installed next to us and says that it is one.

A distribution announces a strategy with an entry point in the group `rescheduler.strategies`. The
entry point names a class with a `name`, by which policies enable it, and perhaps with `Options`, a
struct that derives from `rescheduler.settings.Options`. A plugin that cannot be used is an error,
even if no policy enables it: better now than when someone relies on it.
"""

import re
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

import msgspec

from rescheduler.errors import SettingsError
from rescheduler.files.policy_file import options_key
from rescheduler.settings import Arguments, Options, StrategyName

GROUP = "rescheduler.strategies"

_NAME = re.compile(r"[A-Z][A-Za-z0-9]*", re.ASCII)
_TAKEN_KEYS = {field.encode_name for field in msgspec.structs.fields(Arguments)}


def installed_strategies() -> Mapping[str, type]:
    """The classes of all strategies that are installed as plugins, by name."""
    found: dict[str, type] = {}
    origins: dict[str, str] = {}
    for entry_point in sorted(entry_points(group=GROUP), key=_origin):
        origin = _origin(entry_point)
        strategy = _strategy_of(entry_point)
        name: str = strategy.name  # type: ignore[attr-defined]
        if name in found:
            raise SettingsError(f"{origin}: {origins[name]} has a strategy named {name} too")
        found[name], origins[name] = strategy, origin
    return found


def _origin(entry_point: EntryPoint) -> str:
    distribution = entry_point.dist.name if entry_point.dist is not None else "unknown"
    return f"distribution {distribution}, entry point {entry_point.name} ({entry_point.value})"


def _strategy_of(entry_point: EntryPoint) -> type:
    try:
        strategy = entry_point.load()
    # Whatever goes wrong while other people's code is imported is theirs to mend.
    except Exception as error:
        why = f"cannot be imported: {type(error).__name__}: {error}"
        raise SettingsError(f"{_origin(entry_point)}: {why}") from error
    problem = _problem_with(strategy)
    if problem is not None:
        raise SettingsError(f"{_origin(entry_point)}: {problem}")
    assert isinstance(strategy, type)
    return strategy


def _problem_with(strategy: object) -> str | None:
    """Why this is no strategy that a policy could name, or None."""
    if not isinstance(strategy, type):
        return f"{strategy!r}: expected a class"
    name = getattr(strategy, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"name {name!r}: expected a name such as 'BinPacking'"
    if name in list(StrategyName):
        return f"name {name!r}: a strategy that is built in has this name"
    if options_key(name) in _TAKEN_KEYS:
        return f"name {name!r}: {options_key(name)} is an option that is built in"
    options = getattr(strategy, "Options", None)
    if options is not None and not (isinstance(options, type) and issubclass(options, Options)):
        return (
            f"Options {options!r}: expected a struct that derives from rescheduler.settings.Options"
        )
    return None
