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


def is_job(owner_kind: str, owner_api_version: str) -> bool:
    """Whether a pod's owner is a Job of Kubernetes; custom resources have that name, too.

    Its pods do not stand in for each other, and serve nobody. Files may leave the version out.
    """
    is_of_kubernetes = not owner_api_version or owner_api_version.startswith("batch/")
    return owner_kind == "Job" and is_of_kubernetes


def disables_rescheduling(labels: Mapping[str, str]) -> bool:
    """Whether a pod's labels say that it must not be moved."""
    return labels.get(RESCHEDULING) == "disabled"


def runs_to_completion(restart_policy: str) -> bool:
    """Whether the pod ends when its work is done, so that a copy would do the work twice.

    An empty policy is the API's default, `Always`.
    """
    return restart_policy not in ("", "Always")
