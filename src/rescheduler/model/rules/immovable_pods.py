"""Which pods must stay where they are, whatever a policy or a Migration asks for?"""

from collections.abc import Mapping

from rescheduler.labels import RESCHEDULING


def is_daemon_pod(owner_kind: str) -> bool:
    """Whether a DaemonSet runs the pod: one on every node."""
    return owner_kind == "DaemonSet"


def is_static_pod(owner_kind: str, mirror_annotation: str | None) -> bool:
    """Whether a kubelet runs the pod from a file. The annotation's value does not matter."""
    return owner_kind == "Node" or mirror_annotation is not None


def belongs_to_node(owner_kind: str) -> bool:
    """Whether the pod runs on its node only because the node exists."""
    return is_daemon_pod(owner_kind) or owner_kind == "Node"


def disables_rescheduling(labels: Mapping[str, str]) -> bool:
    """Whether a pod's labels say that it must not be moved."""
    return labels.get(RESCHEDULING) == "disabled"


def runs_to_completion(restart_policy: str) -> bool:
    """Whether the pod ends when its work is done, so that a copy would do the work twice.

    An empty policy is the API's default, `Always`.
    """
    return restart_policy not in ("", "Always")
