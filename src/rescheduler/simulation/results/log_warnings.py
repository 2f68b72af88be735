"""What the controller warns of in its log while it runs in memory."""

import logging
from collections import Counter
from types import TracebackType

OURS = "rescheduler"


class Warnings(logging.Handler):
    """Keeps warnings and errors instead of printing them; in a `with` block."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._counts: Counter[str] = Counter()

    def __enter__(self) -> "Warnings":
        logger = logging.getLogger(OURS)
        self._before = logger.propagate
        logger.propagate = False
        logger.addHandler(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        logger = logging.getLogger(OURS)
        logger.removeHandler(self)
        logger.propagate = self._before

    def emit(self, record: logging.LogRecord) -> None:
        """Count what was said, with the error that is to blame."""
        blamed = getattr(record, "error", "") or getattr(record, "why", "")
        if record.exc_info and record.exc_info[1] is not None:
            blamed = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        self._counts[f"{record.getMessage()}: {blamed}" if blamed else record.getMessage()] += 1

    def told(self) -> tuple[str, ...]:
        """Each of them once, with how often it was said."""
        return tuple(
            f"The controller warned {'once' if count == 1 else f'{count:,} times'}: {text}"
            for text, count in self._counts.most_common()
        )
