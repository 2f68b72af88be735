"""Strategies that are installed as plugins: check them, and name the plugin when one fails."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rescheduler.errors import SettingsError
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.plugins import installed_strategies

Strategies = Mapping[str, type[Strategy]]


def plugin_strategies() -> Strategies:
    """The strategies that are installed as plugins, by name."""
    found = installed_strategies()
    for name, strategy in found.items():
        if not issubclass(strategy, Strategy):
            base = f"{Strategy.__module__}.{Strategy.__qualname__}"
            actual = f"{strategy.__module__}.{strategy.__qualname__}"
            raise SettingsError(f"strategy {name}: {actual}: expected a class derived from {base}")
    return found


@contextmanager
def plugin_errors_named(strategies: Strategies) -> Iterator[None]:
    """Turn an error in a plugin's code into one that names the strategy and the line."""
    try:
        yield
    except Exception as error:
        names = {strategy.__module__: name for name, strategy in strategies.items()}
        for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
            name = names.get(frame.f_globals.get("__name__", ""))
            if name is not None:
                code = frame.f_code
                location = f"{code.co_name} ({code.co_filename}, line {line})"
                cause = f"{type(error).__name__}: {error}"
                raise SettingsError(f"strategy {name}: {location}: {cause}") from error
        raise
