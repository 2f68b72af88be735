"""Whether this machine can run real nodes: tried, not guessed."""

import os
import secrets
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from testcluster.cache import cache_directory
from testcluster.realnodes import cgroups
from testcluster.realnodes.namespaces import NODE_NAMESPACES
from testcluster.realnodes.tools import ToolError, ensure_tools

TRIAL_SECONDS = 60.0
# Nodes have directories of their own in these places, and see nothing of the host there.
HIDDEN_DIRECTORIES = ("/run", "/var/lib", "/var/log")
# What kubelet, CNI plugins and kube-proxy will do, each in one line that says what failed.
TRIAL = """
fail() { echo "$1"; exit 1; }
mount -t tmpfs trial /run || fail "tmpfs cannot be mounted"
ip link add trial type bridge || fail "no bridge can be made"
ip link add one type veth peer name other || fail "no veth pair can be made"
iptables -t nat -A POSTROUTING -m comment --comment trial -m statistic --mode random \
  --probability 0.5 -j MASQUERADE || fail "iptables does not work"
iptables -A FORWARD -m conntrack --ctstate INVALID -j DROP || fail "iptables has no conntrack"
"""
OVERLAY_TRIAL = """
mount -t tmpfs trial /run && cd /run && mkdir lower upper work merged &&
  mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
"""


@cache
def missing_requirement() -> str:
    """Why this machine cannot run real nodes, in one line; empty if it can.

    May download packages of Debian.
    """
    if sys.platform != "linux":
        return f"real nodes need Linux, not {sys.platform}"
    if os.geteuid() != 0:
        return "real nodes need root"
    hidden = hidden_directory()
    if hidden:
        return hidden
    try:
        ensure_tools()
    except ToolError as error:
        return f"real nodes need containerd and others: {error}"
    return missing_cgroups() or failed_trial(TRIAL)


def hidden_directory() -> str:
    """Which directory nodes would not see, or nothing."""
    for name, directory, variable in (
        ("a cache", cache_directory(), "XDG_CACHE_HOME"),
        ("temporary files", Path(tempfile.gettempdir()), "TMPDIR"),
    ):
        for hidden in HIDDEN_DIRECTORIES:
            if directory.resolve().is_relative_to(hidden):
                return f"real nodes cannot use {name} below {hidden}: set {variable}"
    return ""


@cache
def snapshotter() -> str:
    """How containerd stacks the layers of images; `native` copies them, and works everywhere."""
    return "native" if failed_trial(OVERLAY_TRIAL) else "overlayfs"


def missing_cgroups() -> str:
    """Why no cgroups can be made, or nothing."""
    name = f"testcluster-trial-{secrets.token_hex(4)}"
    try:
        cgroups.create(name, "node")
    except OSError as error:
        return f"real nodes need cgroups: {error}"
    finally:
        cgroups.remove(name)
    return ""


def failed_trial(script: str) -> str:
    """What of a script does not work in new namespaces, or nothing."""
    done = subprocess.run(
        ["unshare", "--kill-child", *NODE_NAMESPACES, "sh", "-c", script],
        env={**os.environ, **ensure_tools().env},
        capture_output=True,
        text=True,
        check=False,
        timeout=TRIAL_SECONDS,
    )
    if done.returncode == 0:
        return ""
    reason = ": ".join(filter(None, [done.stdout.strip(), *done.stderr.splitlines()[-1:]]))
    return f"real nodes need namespaces: {reason}"
