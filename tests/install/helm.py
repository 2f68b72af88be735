"""Helm as a process, with nothing of the user's own configuration."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.install.test_files import CHART

Objects = list[dict[str, Any]]


class Helm:
    """Runs Helm, on a cluster if a kubeconfig is given."""

    def __init__(self, binary: Path, directory: Path, kubeconfig: Path | None = None) -> None:
        self.binary = binary
        places = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
        own = {place: str(directory / place) for place in places}
        config = {"KUBECONFIG": str(kubeconfig or directory / "none")}
        self.environment = {**os.environ, **own, **config}

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.binary, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def __call__(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def template(self, values: dict[str, Any], namespace: str) -> Objects:
        """The objects that the chart gives with these values."""
        output = self("template", "test", str(CHART), "--namespace", namespace, *settings(values))
        return objects_in(output)


def settings(values: dict[str, Any]) -> list[str]:
    """Values by their paths, as arguments of Helm."""
    return [f"--set-json={path}={json.dumps(value)}" for path, value in values.items()]


def objects_in(output: str) -> Objects:
    """The objects in a stream of YAML."""
    return [each for each in yaml.load_all(output, yaml.CSafeLoader) if each is not None]
