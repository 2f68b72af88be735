"""Warnings and errors that the controller logs during a run."""

import logging
from collections import Counter
from types import TracebackType

LOGGER = "rescheduler"


class WarningCollector(logging.Handler):
    """Counts warnings and errors instead of printing them; in a `with` block."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._counts: Counter[str] = Counter()

    def __enter__(self) -> "WarningCollector":
        logger = logging.getLogger(LOGGER)
        self._propagated = logger.propagate
        logger.propagate = False
        logger.addHandler(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        logger = logging.getLogger(LOGGER)
        logger.removeHandler(self)
        logger.propagate = self._propagated

    def emit(self, record: logging.LogRecord) -> None:
        """Count the message together with the error that caused it."""
        cause = getattr(record, "error", "") or getattr(record, "why", "")
        if record.exc_info and record.exc_info[1] is not None:
            cause = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        self._counts[f"{record.getMessage()}: {cause}" if cause else record.getMessage()] += 1

    def messages(self) -> tuple[str, ...]:
        """Each message once, with how often it was logged, the most frequent first."""
        return tuple(
            f"The controller warned {'once' if count == 1 else f'{count:,} times'}: {text}"
            for text, count in self._counts.most_common()
        )
