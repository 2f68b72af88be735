"""A policy file that may change while the program runs."""

import asyncio
import logging
from collections.abc import Callable

from rescheduler.cli.strategy_plugins import Strategies
from rescheduler.errors import SettingsError
from rescheduler.files.local_files import STANDARD, read_input
from rescheduler.files.policy_file import read_policy
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# Kubernetes replaces the files of a ConfigMap without telling anyone.
LOOK_SECONDS = 2.0


class PolicyFile:
    """Hands on a new policy when the file has one. What cannot be used is refused, once."""

    def __init__(
        self, file: str | None, strategies: Strategies, take: Callable[[Policy], None]
    ) -> None:
        self._strategies = strategies
        self._file = file if file != STANDARD else None
        self._take = take
        self._asked = asyncio.Event()
        self._seen = self._content()

    def ask(self) -> None:
        """Read it now, even if it does not seem to have changed."""
        self._asked.set()

    async def follow(self) -> None:
        """Look at the file again and again, until cancelled."""
        while True:
            asked = await self._asked_within(LOOK_SECONDS)
            content = self._content()
            if content != self._seen or asked:
                self._seen = content
                self._hand_on(content)

    def _content(self) -> bytes | str | None:
        """The file's content, as text why there is none, or None if there is no file at all."""
        try:
            return read_input(self._file)[1] if self._file is not None else None
        except SettingsError as error:
            return str(error)

    def _hand_on(self, content: bytes | str | None) -> None:
        if content is None or self._file is None:
            logger.info("There is no policy file to read again")
            return
        try:
            if isinstance(content, str):
                raise SettingsError(content)
            self._take(read_policy(self._file, content, self._strategies))
        except SettingsError as error:
            extra = {"error": str(error)}
            logger.error("Refused a new policy and kept the old one", extra=extra)
        else:
            logger.info("Took over a new policy", extra={"file": self._file})

    async def _asked_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._asked.wait(), seconds)
        except TimeoutError:
            return False
        self._asked.clear()
        return True
