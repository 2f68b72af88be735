"""Reload the policy file while the program runs."""

import asyncio
import logging
from collections.abc import Callable

from rescheduler.cli.inputs import LoadedPolicy
from rescheduler.errors import SettingsError
from rescheduler.files.local_files import STANDARD, read_input
from rescheduler.files.policy_file import is_empty, read_policy
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# The kubelet replaces the files of a ConfigMap without any signal, so the file is polled.
POLL_SECONDS = 2.0
EMPTY = "it is empty, perhaps half-written; write {} for the defaults"


def ignore(news: object) -> None:
    """What a reload is followed by if nobody has to know."""


class PolicyReloader:
    """Applies a policy when its file changes. An invalid policy is rejected, and logged once.

    A file that is being written may be valid at any moment, with half of its options. So a change
    is applied when the next poll finds the same content. An empty file is rejected.
    """

    def __init__(
        self,
        loaded: LoadedPolicy,
        apply: Callable[[Policy], None],
        on_accepted: Callable[[bytes], None] = ignore,
        on_rejected: Callable[[str], None] = ignore,
    ) -> None:
        """`on_accepted` is called with the content of the file, `on_rejected` with what is wrong
        with it."""
        self._strategies = loaded.strategies
        self._file = loaded.file if loaded.file != STANDARD else None
        self._apply = apply
        self._on_accepted = on_accepted
        self._on_rejected = on_rejected
        self._requested = asyncio.Event()
        self._last_seen = self._last_handled = self._content()

    def reload(self) -> None:
        """Read the file now, even if it has not changed."""
        self._requested.set()

    async def run(self) -> None:
        """Poll the file until cancelled."""
        while True:
            self.poll(await self._requested_within(POLL_SECONDS))

    def poll(self, requested: bool = False) -> None:
        """Apply the file if it has changed and is complete, or if that was `requested`."""
        content = self._content()
        is_complete, self._last_seen = content == self._last_seen, content
        if requested or (is_complete and content != self._last_handled):
            self._last_handled = content
            self._apply_content(content)

    def _content(self) -> bytes | str | None:
        """The content of the file, the error as text if it is unreadable, None without a file."""
        try:
            return read_input(self._file)[1] if self._file is not None else None
        except SettingsError as error:
            return str(error)

    def _apply_content(self, content: bytes | str | None) -> None:
        if content is None or self._file is None:
            logger.info("There is no policy file to reload")
            return
        try:
            if isinstance(content, str):
                raise SettingsError(content)
            self._apply(self._policy_in(self._file, content))
        except SettingsError as error:
            extra = {"error": str(error)}
            logger.error("Rejected an invalid policy and kept the old one", extra=extra)
            self._on_rejected(str(error))
        else:
            self._on_accepted(content)
            logger.info("Reloaded the policy", extra={"file": self._file})

    def _policy_in(self, file: str, content: bytes) -> Policy:
        if is_empty(content):
            raise SettingsError(f"{file}: {EMPTY}")
        return read_policy(file, content, self._strategies)

    async def _requested_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._requested.wait(), seconds)
        except TimeoutError:
            return False
        self._requested.clear()
        return True
