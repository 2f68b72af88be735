"""Processes that never outlive the Python process that started them."""

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


class Component:
    """One component of a cluster: a process, its command line and its log.

    The process ends when the pipe to its standard input does (see testcluster/go/main.go), and
    only this process holds the other end. So it ends even if this process is killed.
    """

    def __init__(
        self, name: str, binary: Path, arguments: list[str], log: Path, env: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        self.command = [str(binary), "--with-owner", name, *arguments]
        self.env = {**os.environ, **env}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it in its own session, so that Ctrl-C in the terminal does not reach it."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self.env,
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self.process.pid if self.process else None

    def has_ended(self) -> bool:
        """Whether it was started and has ended by itself."""
        return self.process is not None and self.process.poll() is not None

    def stop(self, grace_seconds: float = 0.0) -> None:
        """Kill it and wait until it has ended; with `grace_seconds`, send SIGTERM first."""
        if self.process is None:
            return
        if grace_seconds:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_seconds)
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process = None

    def log_tail(self, lines: int = 15) -> str:
        """The end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])
