"""Strategies of other people at the command line: found, checked, and named when they fail."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rescheduler.errors import SettingsError
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.plugins import installed_strategies

Strategies = Mapping[str, type[Strategy]]


def strategies_of_others() -> Strategies:
    """The strategies that are installed as plugins, by name."""
    found = installed_strategies()
    for name, strategy in found.items():
        if not issubclass(strategy, Strategy):
            base = f"{Strategy.__module__}.{Strategy.__qualname__}"
            where = f"{strategy.__module__}.{strategy.__qualname__}"
            raise SettingsError(f"strategy {name}: {where}: expected a class derived from {base}")
    return found


@contextmanager
def naming_the_plugin(strategies: Strategies) -> Iterator[None]:
    """An error in other people's code becomes one that names their strategy and the line."""
    try:
        yield
    except Exception as error:
        culprits = {each.__module__: name for name, each in strategies.items()}
        for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
            name = culprits.get(frame.f_globals.get("__name__", ""))
            if name is not None:
                code = frame.f_code
                where = f"{code.co_name} ({code.co_filename}, line {line})"
                what = f"{type(error).__name__}: {error}"
                raise SettingsError(f"strategy {name}: {where}: {what}") from error
        raise
