"""The number of inotify instances, of which a machine has few and a kubelet needs some.

Linux allows a user 128 by default. A kubelet that gets none ends with "too many open files".
"""

import ctypes
import os
from pathlib import Path

LIMIT_FILE = Path("/proc/sys/fs/inotify/max_user_instances")
# The kubelet has five, containerd and kube-proxy one each.
INSTANCES_PER_NODE = 8

SHORTAGE_MESSAGE = "inotify_init: too many open files"
"""What a kubelet logs that got none."""

libc = ctypes.CDLL(None, use_errno=True)


def shortage(node_count: int) -> str:
    """Why this many nodes could not start now, or nothing. Other clusters take instances, too."""
    wanted = node_count * INSTANCES_PER_NODE
    opened: list[int] = []
    try:
        while len(opened) < wanted:
            descriptor = libc.inotify_init()
            if descriptor < 0:
                limit = LIMIT_FILE.read_text().strip()
                return (
                    f"real nodes need {wanted} inotify instances and {len(opened)} are free: stop "
                    f"other clusters, or raise fs.inotify.max_user_instances ({limit})"
                )
            opened.append(descriptor)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return ""
