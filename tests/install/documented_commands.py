"""The commands that documents show, run as somebody would who follows the documents."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from rescheduler.install.kustomize import MISSING_IMAGE
from testcluster import TestCluster
from testcluster.__main__ import write_kubectl
from testcluster.waiting import wait_until
from tests.install.installs import IMAGE, wait_until_kinds_are_served
from tests.install.test_files import DEPLOY, ROOT
from tests.interrupts import interruptible

PAGES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("deployment", "security", "troubleshooting", "replicas", "status")
    ),
]
COMMAND = re.compile(r"(?:\$ )?((?:\.venv/bin/)?(?:kubectl|helm|kind|make|rescheduler) \S.*)")
REMOVAL = re.compile(r"\b(delete|uninstall)\b")
BASH = Path("/bin/bash")
USED_FILES = ("charts", "examples")
COMMAND_SECONDS = 300.0


def commands_in(text: str) -> set[str]:
    """All commands in a page: those on lines of their own, and those in the midst of a text."""
    joined = re.sub(r" *\\\n +", " ", text)
    lines = re.findall(r"^    (.*)$", joined, re.M)
    # Two spaces separate a command from what it does.
    shown = [line.partition("  ")[0] for line in lines]
    inline = [span.replace(r"\|", "|") for span in re.findall(r"`([^`\n]+)`", text)]
    found = (COMMAND.fullmatch(each.strip()) for each in (*shown, *inline))
    return {each[1].removeprefix(".venv/bin/") for each in found if each}


def documented_commands() -> set[str]:
    """The commands of all pages."""
    return {command for page in PAGES for command in commands_in(page.read_text())}


class Terminal:
    """Runs commands in a folder that looks like this repository, on a cluster."""

    def __init__(self, cluster: TestCluster, directory: Path, helm: Path | None = None) -> None:
        self._cluster = cluster
        self._directory = directory / "work"
        self._directory.mkdir()
        for name in USED_FILES:
            (self._directory / name).symlink_to(ROOT / name)
        shutil.copytree(DEPLOY, self._directory / "deploy")
        file = self._directory / "deploy" / "kustomization.yaml"
        file.write_text(file.read_text().replace(MISSING_IMAGE, IMAGE["image.repository"]))
        programs = directory / "bin"
        programs.mkdir()
        write_kubectl(cluster, programs)
        if helm is not None:
            (programs / "helm").symlink_to(helm)
        path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        homes = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
        self._environment = {
            **os.environ,
            **{home: str(directory / home) for home in homes},
            "PATH": path,
            "KUBECONFIG": str(cluster.kubeconfig),
        }

    def run(self, command: str, code: int = 0) -> str:
        """Run a command to its end; what it printed."""
        if REMOVAL.search(command):
            wait_until_kinds_are_served(self._cluster)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == code, f"{command}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, command: str, awaited: str) -> "Endless":
        """Start a command that does not end by itself, and wait until it prints something."""
        return Endless(command, awaited, self._directory, self._environment)


class Endless:
    """A command that runs until it is stopped."""

    def __init__(
        self, command: str, awaited: str, directory: Path, environment: dict[str, str]
    ) -> None:
        output = directory / f"output-{len(list(directory.glob('output-*')))}"
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                interruptible(BASH, "-c", f"exec {command}"),
                cwd=directory,
                env=environment,
                stdout=file,
                stderr=file,
            )

        def has_printed() -> bool:
            assert self._process.poll() is None, f"{command}:\n{output.read_text()}"
            return awaited in output.read_text()

        try:
            wait_until(has_printed, what=f"{command} prints {awaited!r}")
        except AssertionError:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)
