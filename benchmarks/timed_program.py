"""Runs our command line, and writes how long one waits for a turn of its first event loop.

A thread asks the loop for a turn fifty times a second: what takes the loop or Python's lock for
long is seen as a wait. To wait for a CPU that other programs use would be seen, too, so the program
gets it first, if it may.
"""

import asyncio
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from rescheduler.cli import main

SAMPLE_SECONDS = 0.02


class TimedLoops(asyncio.DefaultEventLoopPolicy):
    """Watches the first loop that is created."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._is_watching = False

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """See `AbstractEventLoopPolicy`."""
        loop = super().new_event_loop()
        if not self._is_watching:
            self._is_watching = True
            Thread(target=write_waits, args=(loop, self._file), daemon=True).start()
        return loop


def write_waits(loop: asyncio.AbstractEventLoop, file: Path) -> None:
    with file.open("w", buffering=1) as output:
        while True:
            time.sleep(SAMPLE_SECONDS)
            turn, asked = Event(), time.perf_counter()
            try:
                loop.call_soon_threadsafe(turn.set)
            except RuntimeError:
                return
            turn.wait(60)
            output.write(f"{time.perf_counter() - asked}\n")


if __name__ == "__main__":
    with suppress(PermissionError):
        os.nice(-15)
    asyncio.set_event_loop_policy(TimedLoops(Path(sys.argv.pop(1))))
    main()
