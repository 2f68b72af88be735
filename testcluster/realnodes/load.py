"""Requests that are sent in the background while a test does something else."""

import json
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class LoadReport:
    """What came of the requests."""

    sent: int
    ok: int
    failed: int
    kinds: dict[str, int]
    """How many failed in which way."""
    failures: list[dict[str, Any]]
    """Each with its time (`at`), how many `seconds` it took, its `url` and its `error`."""
    latency_milliseconds: dict[str, float]
    """p50, p90, p99, p999 and max, of the answered ones."""
    answers_by_host: dict[str, int]
    """How many each pod answered."""


class Load:
    """A running load generator. It ends with the process that started it, even a killed one."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> LoadReport:
        """Send no more requests, wait for the last answers, and report."""
        self.process.send_signal(signal.SIGTERM)
        return self.report()

    def report(self) -> LoadReport:
        """Wait until the time of the load is over, and report."""
        assert self.process.stdout is not None
        # Not communicate: it would close standard input first, which ends the load at once.
        output = self.process.stdout.read()
        self.process.communicate()
        if self.process.returncode != 0:
            raise AssertionError(f"the load generator ended with {self.process.returncode}")
        read = json.loads(output)
        return LoadReport(
            sent=read["sent"],
            ok=read["ok"],
            failed=read["failed"],
            kinds=read["kinds"],
            failures=read["failures"],
            latency_milliseconds=read["latencyMilliseconds"],
            answers_by_host=read["answersByHost"],
        )


def write_addresses(file: Path, urls: list[str]) -> None:
    """Change the file of `load -addresses`; a reader sees the old URLs or the new ones."""
    new = file.with_name(f"{file.name}.new")
    new.write_text("\n".join(urls))
    new.replace(file)
