"""Fixtures for tests of credentials."""

import os
import pty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testcluster import TestCluster
from tests.kube.auth.support import Json, kubeconfig, trusted, write

WriteConfig = Callable[..., Path]

STDIN, STDERR = 0, 2


@pytest.fixture
def write_config(cluster: TestCluster, tmp_path: Path) -> WriteConfig:
    """Write a kubeconfig with one context, in which cluster or user can be changed.

    A field of the cluster that is None is left out.
    """

    def write_one(
        user: Json,
        name: str = "here",
        file: str = "config",
        current: bool = True,
        **fields: Any,
    ) -> Path:
        entry = {key: value for key, value in trusted(cluster, **fields).items() if value}
        content = kubeconfig(entry, user, name)
        if not current:
            del content["current-context"]
        return write(tmp_path / file, content)

    return write_one


@pytest.fixture
def terminal() -> Iterator[int]:
    """Standard input is a terminal while the test runs; what is written here is typed in."""
    with pseudo_terminal_as(STDIN) as other_end:
        yield other_end


@contextmanager
def pseudo_terminal_as(descriptor: int) -> Iterator[int]:
    """Replace a standard stream by a terminal; the value is its other end."""
    other_end, terminal = pty.openpty()
    try:
        with replaced(descriptor, terminal):
            yield other_end
    finally:
        os.close(other_end)


@pytest.fixture
def no_terminal() -> Iterator[None]:
    """Standard input is no terminal while the test runs, even if pytest's is one."""
    with replaced(STDIN, os.open(os.devnull, os.O_RDONLY)):
        yield


@contextmanager
def replaced(descriptor: int, by: int) -> Iterator[None]:
    before = os.dup(descriptor)
    os.dup2(by, descriptor)
    os.close(by)
    try:
        yield
    finally:
        os.dup2(before, descriptor)
        os.close(before)
