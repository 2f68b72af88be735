"""NodeDeclaredFeatures: the node must declare the kubelet features that the pod relies on.

Of the features that nodes declare in Kubernetes 1.37, pods ask for two by default: restarting all
containers of a pod when one exits, and user namespaces together with the host's network. A third,
options of bind mounts, is off unless a feature gate is switched on, and not read here.
"""

import numpy as np

from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.filter_plugin import SharedLister

_RESTART_ALL = "RestartAllContainersOnContainerExits"
_USER_NAMESPACES_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


class NodeDeclaredFeatures:
    """Refuses nodes that do not declare a feature the pod needs."""

    name = "NodeDeclaredFeatures"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister
        self._lacking: dict[frozenset[str], Bools] = {}

    def refused(self, template: int) -> Bools | None:
        needed = needed_features(self._lister.snapshot.templates[template])
        if not needed:
            return None
        lacking = self._lacking.get(needed)
        if lacking is None:
            declared = [
                node.status.declared_features for node in self._lister.snapshot.nodes.objects
            ]
            lacking = np.array([not needed.issubset(features) for features in declared], bool)
            self._lacking[needed] = lacking
        return lacking

    def reason(self, template: int, node: int) -> str:
        needed = needed_features(self._lister.snapshot.templates[template])
        missing = needed.difference(
            self._lister.snapshot.nodes.objects[node].status.declared_features
        )
        return f"the node does not declare {', '.join(sorted(missing))}, which the pod needs"


def needed_features(template: PodTemplate) -> frozenset[str]:
    """Kubelet features without which the pod cannot run as it says."""
    features = set()
    if any(
        plugin.action == "RestartAllContainers"
        for container in template.containers + template.init_containers
        for plugin in container.restart_policy_rules
    ):
        features.add(_RESTART_ALL)
    if template.host_network and template.host_users is False:
        features.add(_USER_NAMESPACES_ON_HOST_NETWORK)
    return frozenset(features)
