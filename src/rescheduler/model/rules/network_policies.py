# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Which labels of a pod policies select by: without one of them, a pod may escape a policy.

NetworkPolicies are read. Other kinds of policies are not: where the cluster has any, nobody knows
by which labels they select.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from rescheduler.labels import TEMPLATE_HASHES
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, LabelSelector, Part
from rescheduler.model.selectors import selector_keys

API_GROUPS_PATH = "/apis"
UNREAD_GROUPS = frozenset(
    {
        "cilium.io",
        "crd.antrea.io",
        "crd.projectcalico.org",
        "kuma.io",
        "policy.linkerd.io",
        "policy.networking.k8s.io",
        "projectcalico.org",
        "security.istio.io",
    }
)
"""API groups with policies of their own that select pods by labels."""


class PolicyPeer(Part):
    """Pods that a policy lets others talk to, or hear from."""

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None


class IngressRule(Part):
    """Who may connect to the pods."""

    sources: tuple[PolicyPeer, ...] = msgspec.field(default=(), name="from")


class EgressRule(Part):
    """What the pods may connect to."""

    to: tuple[PolicyPeer, ...] = ()


class PolicySpec(Part):
    """The part of a policy that selects pods."""

    pod_selector: LabelSelector = LabelSelector()
    ingress: tuple[IngressRule, ...] = ()
    egress: tuple[EgressRule, ...] = ()

    @property
    def peers(self) -> list[PolicyPeer]:
        """The peers of all rules."""
        sources = [peer for rule in self.ingress for peer in rule.sources]
        return sources + [peer for rule in self.egress for peer in rule.to]


class NetworkPolicy(Part):
    """A NetworkPolicy, as far as it selects pods."""

    metadata: Identity
    spec: PolicySpec = PolicySpec()


class ApiGroup(Part):
    """An API group that the server knows."""

    name: str = ""


class ApiGroups(Part):
    """All of them."""

    groups: tuple[ApiGroup, ...] = ()


NETWORK_POLICY = Kind(
    "NetworkPolicy", "networking.k8s.io/v1", "networkpolicies", True, NetworkPolicy
)


@dataclass(frozen=True)
class PolicyLabels:
    """Which labels the pods of a namespace must have from the start."""

    keys: frozenset[str] = frozenset()
    unknown_because: str = ""
    """Why other labels may be among them, too."""

    def may_select_by(self, key: str) -> bool:
        """Whether a policy may select pods by this label. None selects by a template's hash."""
        return key not in TEMPLATE_HASHES and (bool(self.unknown_because) or key in self.keys)


NO_POLICIES = PolicyLabels()


def policy_labels(
    namespace: str, policies: Iterable[NetworkPolicy], groups: ApiGroups
) -> PolicyLabels:
    """The labels by which policies select pods of this namespace."""
    unread = sorted(UNREAD_GROUPS & {group.name for group in groups.groups})
    if unread:
        return PolicyLabels(unknown_because=f"policies of {', '.join(unread)} are not read")
    keys: set[str] = set()
    for policy in policies:
        is_here = policy.metadata.namespace == namespace
        if is_here:
            keys |= selector_keys(policy.spec.pod_selector)
        for peer in policy.spec.peers:
            if peer.pod_selector is not None and (is_here or peer.namespace_selector is not None):
                keys |= selector_keys(peer.pod_selector)
    return PolicyLabels(frozenset(keys))
