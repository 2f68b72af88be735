"""zsh and fish complete live names when Tab is pressed, with the script that we print for them.

The shells are those of the system, or Debian's, unpacked to the cache.
"""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testcluster.realnodes.tools import ToolError, ensure_unpacked
from testcluster.waiting import wait_until
from tests.migration.support import Sandbox

COMMAND = Path(sys.executable).with_name("rescheduler")
ANSWER_SECONDS = 60.0
# It gives up after three seconds.
AGAIN_SECONDS = 10.0
PROMPT = "ready> "

Complete = Callable[[str], str]
"""What a shell makes of a line when Tab is pressed at its end."""


class Shell:
    """A shell, and where its files are if it is not installed."""

    def __init__(self, name: str, directory: Path, kubeconfig: Path) -> None:
        installed = shutil.which(name)
        self.root = Path("/") if installed else unpacked(name)
        found = [self.root / place / name for place in ("bin", "usr/bin")]
        self.program = Path(installed) if installed else next(filter(Path.exists, found))
        self.directory = directory
        libraries = {str(path.parent) for path in self.root.glob("usr/lib/*/*.so*")}
        self.environment = {
            "PATH": f"{COMMAND.parent}:{os.environ['PATH']}",
            "HOME": str(directory),
            "TERM": "dumb",
            "KUBECONFIG": str(kubeconfig),
            **({} if installed else {"LD_LIBRARY_PATH": ":".join(sorted(libraries))}),
        }
        self.script = directory / f"completion.{name}"
        printed = subprocess.run([COMMAND, "completion", name], capture_output=True, check=True)
        self.script.write_bytes(printed.stdout)


def unpacked(package: str) -> Path:
    try:
        return ensure_unpacked([package])
    except ToolError as error:
        pytest.skip(f"{package} cannot be had: {error}")


class Fish(Shell):
    """fish lists what it would suggest."""

    def complete(self, line: str) -> str:
        commands = f"source {self.script}; complete --do-complete '{line}'"

        def suggested() -> list[str]:
            done = subprocess.run(
                [self.program, "--no-config", "--command", commands],
                env=self.environment,
                capture_output=True,
                text=True,
                check=True,
            )
            assert done.stderr == ""
            return done.stdout.splitlines()

        # On a busy machine, we may give up asking the cluster, and suggest nothing.
        (found,) = wait_until(suggested, what="fish has a suggestion")
        return f"{line.rpartition(' ')[0]} {found}"


class Zsh(Shell):
    """zsh is asked on a terminal, for it completes on nothing else."""

    def complete(self, line: str) -> str:
        (self.directory / ".zshenv").write_text(self.where_files_are())
        (self.directory / ".zshrc").write_text(self.settings())
        screen, terminal = pty.openpty()
        with subprocess.Popen(
            [self.program, "--no-global-rcs", "-i"],
            env=self.environment,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        ) as process:
            os.close(terminal)
            try:
                assert read_until(screen, PROMPT)
                os.write(screen, line.encode())
                assert read_until(screen, line)
                return f"{line}{self.continuation(screen)}"
            finally:
                process.kill()
                os.close(screen)

    def continuation(self, screen: int) -> str:
        """What is put behind the line; on a busy machine, not the first time that Tab is pressed.

        Behind a word that is complete, there comes a space.
        """

        def pressed() -> str:
            os.write(screen, b"\t")
            return read_until(screen, " ", seconds=AGAIN_SECONDS)

        shown = wait_until(pressed, what="zsh has completed the word")
        return shown.replace("\a", "").rstrip()

    def where_files_are(self) -> str:
        """For a shell that is not installed; (N) is nothing where nothing is."""
        share = self.root / "usr/share/zsh/functions"
        return (
            f"module_path=({self.root}/usr/lib/*/zsh/*(N/) $module_path)\n"
            f"fpath=($fpath {share}/*(N/) {share}/Completion/*(N/))\n"
        )

    def settings(self) -> str:
        return (
            f"PS1='{PROMPT}'\n"
            "stty columns 500\n"
            f"autoload -U compinit && compinit -u -d {self.directory}/dump\n"
            f"source {self.script}\n"
        )


def read_until(screen: int, text: str, seconds: float = ANSWER_SECONDS) -> str:
    """What comes on the screen until the text is there; nothing if it does not come in time."""
    shown, deadline = "", time.monotonic() + seconds
    while text not in shown:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([screen], [], [], left)[0]:
            return ""
        shown += os.read(screen, 4096).decode(errors="replace")
    return shown


@pytest.fixture(params=[Zsh, Fish], ids=["zsh", "fish"])
def complete(request: pytest.FixtureRequest, sandbox: Sandbox, tmp_path: Path) -> Complete:
    shell = request.param(request.param.__name__.lower(), tmp_path, sandbox.cluster.kubeconfig)
    found: Complete = shell.complete
    return found


def test_nodes_and_pods_are_completed(complete: Complete, sandbox: Sandbox) -> None:
    (name,) = sandbox.add_nodes("a")
    (pod,) = sandbox.deploy("web", 1)
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    assert complete(f"rescheduler drain {name[:-1]}") == f"rescheduler drain {name}"
    assert complete(f"rescheduler move {sandbox.namespace}/w") == f"rescheduler move {key}"
    to = f"rescheduler move {key} --to"
    assert complete(f"{to} {name[:-1]}") == f"{to} {name}"
