"""Runs our command line, and writes how long one waits for a turn of its first event loop.

A thread asks the loop for a turn fifty times a second: what takes the loop or Python's lock for
long is seen as a wait. Each line is such a wait in seconds, and what is left of it without the time
for which threads of the program were ready and other programs had the CPU.
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
            turn, asked, without_cpu = Event(), time.perf_counter(), seconds_without_cpu()
            try:
                loop.call_soon_threadsafe(turn.set)
            except RuntimeError:
                return
            turn.wait(60)
            waited = time.perf_counter() - asked
            own = max(0.0, waited - (seconds_without_cpu() - without_cpu))
            output.write(f"{waited} {own}\n")


def seconds_without_cpu() -> float:
    """For how long threads of this process were ready to run, and did not; 0 if nobody counts."""
    total = 0
    for file in Path("/proc/self/task").glob("*/schedstat"):
        # A thread may end meanwhile.
        with suppress(OSError):
            total += int(file.read_text().split()[1])
    return total / 1e9


if __name__ == "__main__":
    with suppress(PermissionError):
        os.nice(-15)
    asyncio.set_event_loop_policy(TimedLoops(Path(sys.argv.pop(1))))
    main()
