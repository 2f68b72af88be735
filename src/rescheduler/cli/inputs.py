"""The inputs of commands: a cluster from files or live, a policy, and a pod named by the user."""

import math
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.options import ClusterAccess
from rescheduler.files.local_files import STANDARD, read_input

if TYPE_CHECKING:
    from rescheduler.cli.strategy_plugins import Strategies
    from rescheduler.model.snapshot import Snapshot
    from rescheduler.settings import Policy


MOST_NAMED = 5


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy, the file it is from (None: the defaults), and the plugins it may enable."""

    policy: "Policy"
    file: str | None
    strategies: "Strategies"
    content: bytes | None = None
    """What is in the file, or was when it was valid."""
    problem: str = ""
    """Why the policy in the file is not the one that is used; empty if it is."""


def load_policy(file: str | None) -> LoadedPolicy:
    """The policy in a file, or the default policy without a file."""
    from rescheduler.cli.strategy_plugins import plugin_strategies
    from rescheduler.files.policy_file import read_policy
    from rescheduler.settings import Policy

    strategies = plugin_strategies()
    if file is None:
        return LoadedPolicy(Policy(), file, strategies)
    name, content = read_input(file)
    return LoadedPolicy(read_policy(name, content, strategies), file, strategies, content)


def policy_in(file: str | None, strategies: "Strategies") -> "Policy":
    """The policy in a file, which may enable these plugins, or the default policy."""
    from rescheduler.files.policy_file import read_policy
    from rescheduler.settings import Policy

    return read_policy(*read_input(file), strategies) if file else Policy()


@dataclass(frozen=True)
class LoadedCluster:
    """A cluster, and the time from which the ages of its pods are counted."""

    snapshot: "Snapshot"
    now: float
    """In seconds since 1970. The same files always give the same time, so plans do not change."""
    is_now_known: bool
    """If not, it is the time when the newest pod was created."""


def load_cluster(files: list[str] | None, access: ClusterAccess) -> LoadedCluster:
    """The cluster that the files describe together or, without files, the live cluster."""
    if files and access.is_given:
        raise typer.BadParameter(
            "cannot be combined with --kubeconfig or --context", param_hint="--snapshot"
        )
    if files:
        return cluster_in_files(files)
    import asyncio

    from rescheduler.cli.connection import read_snapshot

    return LoadedCluster(asyncio.run(read_snapshot(access)), time.time(), is_now_known=True)


def cluster_in_files(files: list[str]) -> LoadedCluster:
    """The cluster that the files describe together."""
    from rescheduler.files.cluster_file import read_cluster_files

    read = read_cluster_files(map(read_input, files))
    note_missing_nodes(read.snapshot)
    if read.written_at is not None:
        return LoadedCluster(read.snapshot, read.written_at.timestamp(), is_now_known=True)
    created = read.snapshot.pods.created
    known = created[created == created]
    now = float(known.max()) if len(known) else math.inf
    return LoadedCluster(read.snapshot, now, is_now_known=False)


def note_missing_nodes(cluster: "Snapshot") -> None:
    """Say on standard error which pods are on nodes that no file has."""
    import numpy as np

    from rescheduler.model.snapshot import UNKNOWN_NODE

    pods = cluster.pods
    keys = [pods.keys[row] for row in np.flatnonzero((pods.node == UNKNOWN_NODE) & ~pods.finished)]
    if not keys:
        return
    named = escaped(", ".join(keys[:MOST_NAMED]))
    more = f" and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
    note = (
        "Note: the nodes of these pods are not in the files, so the pods take up no room and stay"
    )
    print(f"{note}: {named}{more}", file=sys.stderr)


def refuse_second_use_of_stdin(files: list[str] | None, policy: str | None) -> None:
    """Standard input can be read only once: a second reader would find it empty."""
    if [*(files or ()), policy].count(STANDARD) > 1:
        raise typer.BadParameter(
            "standard input (-) can be read only once", param_hint="--snapshot"
        )


def pod_row(cluster: "Snapshot", pod: str) -> int:
    """The row of the pod that the user named, with or without its namespace."""
    import difflib

    from rescheduler.errors import SettingsError

    keys = cluster.pods.keys
    rows = [row for row, key in enumerate(keys) if key == pod or key.rpartition("/")[2] == pod]
    if len(rows) > 1:
        names = ", ".join(keys[row] for row in rows[:5])
        raise SettingsError(
            f"pod {pod}: found in several namespaces: {names}; expected NAMESPACE/NAME"
        )
    if not rows:
        close = difflib.get_close_matches(pod, keys, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise SettingsError(f"pod {pod}: not found among {len(keys):,} pods{hint}")
    if cluster.pods.finished[rows[0]]:
        raise SettingsError(
            f"pod {keys[rows[0]]}: it has finished; expected a running or pending pod"
        )
    return rows[0]
