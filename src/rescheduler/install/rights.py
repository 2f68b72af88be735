"""Which rights each part of the program needs, and why.

The roles that we ship have these rights and no others. `tests/install/test_rights.py` compares
them with what the program asks of a real API server, in both directions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rescheduler.extender.tls.certificate_secret import AUTHORITY_SUFFIX
from rescheduler.extender.webhook.registration import CONFIGURATION_NAME, WEBHOOK_CONFIGURATION
from rescheduler.migration.memory.move_record import MOVE_RECORD
from rescheduler.migration.migration_object import MIGRATION
from rescheduler.migration.services.endpoint_slices import ENDPOINT_SLICE
from rescheduler.model import kinds
from rescheduler.model.kinds import KINDS, Kind
from rescheduler.model.rules.network_policies import NETWORK_POLICY

SECRET_NAME = "rescheduler-certificates"
LEASE_NAME = "rescheduler"
SCHEDULER_LEASE_NAME = "rescheduler-scheduler"

READ = ("list", "watch")


@dataclass(frozen=True)
class Right:
    """What may be done with some resources of an API group, and why we have to."""

    group: str
    resources: Sequence[str]
    verbs: Sequence[str]
    reason: str
    names: Sequence[str] = ()
    """Only these objects, if given."""

    @property
    def rule(self) -> dict[str, Any]:
        """The rule of a role that grants it."""
        rule = {
            "apiGroups": [self.group],
            "resources": [*self.resources],
            "verbs": [*self.verbs],
        }
        return rule | ({"resourceNames": [*self.names]} if self.names else {})


@dataclass(frozen=True)
class RoleDefinition:
    """A role, with the rights that one part of the program needs."""

    name: str
    title: str
    rights: Sequence[Right]
    is_namespaced: bool = False
    """Whether the rights are for the namespace of the installation alone."""
    needs: str = ""
    """The switch that turns the part on; empty for what every installation has."""


def group_of(kind: Kind[Any]) -> str:
    """The API group of a kind; empty for the core group."""
    return kind.api_version.rpartition("/")[0]


def right(
    of: Kind[Any], verbs: Sequence[str], reason: str, *, sub: str = "", names: Sequence[str] = ()
) -> Right:
    """A right to objects of one kind, or to a subresource of them."""
    resource = f"{of.plural}/{sub}" if sub else of.plural
    return Right(group_of(of), (resource,), verbs, reason, names)


READ_REASONS: dict[Kind[Any], str] = {
    kinds.NODE: "the nodes, their capacity, taints and labels",
    kinds.POD: "the pods, what they request and where they run",
    kinds.NAMESPACE: "labels of namespaces, which affinity terms select by",
    kinds.BUDGET: "disruption budgets, which say how many pods may be missing",
    kinds.REPLICA_SET: "owners of pods: how many are wanted, how many are Ready",
    kinds.REPLICATION_CONTROLLER: "owners of pods, as above",
    kinds.DEPLOYMENT: "whether a second pod may run beside the first (strategy, maxSurge)",
    kinds.STATEFUL_SET: "owners of pods, as above",
    kinds.DAEMON_SET: "cluster files that `rescheduler snapshot` writes hold them",
    kinds.JOB: "owners of pods: whether a Job restarts what it loses",
    kinds.PRIORITY_CLASS: "cluster files that `rescheduler snapshot` writes hold them",
    kinds.VOLUME: "which nodes can mount the volume of a pod",
    kinds.CLAIM: "which volumes a pod uses, and whether two nodes may mount them",
    kinds.STORAGE_CLASS: "where a volume that does not exist yet can be created",
    kinds.CSI_NODE: "how many volumes a node can hold",
    kinds.CSI_DRIVER: "which volumes count against that number",
    MIGRATION: "moves under way, whose pods are left alone",
    MOVE_RECORD: "earlier moves, so that none is repeated in vain",
}
"""Why each kind is read; the keys are all that is listed and watched."""

PLANNING = RoleDefinition(
    "rescheduler-read",
    "read the cluster, to plan",
    [right(kind, READ, READ_REASONS[kind]) for kind in (*KINDS, MIGRATION, MOVE_RECORD)],
)

MOVING = RoleDefinition(
    "rescheduler-move",
    "carry out moves",
    [
        right(MIGRATION, ("get", "create", "delete"), "one object for each move"),
        right(MIGRATION, ("patch",), "the progress of a move", sub="status"),
        right(MOVE_RECORD, ("create", "delete"), "the memory of moves, dropped after two weeks"),
        right(kinds.POD, ("get",), "both pods of a move, before anything is done to them"),
        right(kinds.POD, ("create",), "the new pod of a handoff, Ready before the old one goes"),
        right(
            kinds.POD,
            ("patch",),
            "labels of a move, the scheduling gate of its new pod, "
            "the deletion cost of its old one",
        ),
        right(kinds.POD, ("delete",), "the new pod of a move that is undone"),
        right(
            kinds.POD,
            ("patch",),
            "the target node of the new pod (nominatedNodeName); the old "
            "pod leaves its Services (Ready: False)",
            sub="status",
        ),
        right(kinds.POD, ("create",), "pods that must not run twice are evicted", sub="eviction"),
        right(kinds.REPLICA_SET, ("get",), "the template of the new pod"),
        right(kinds.REPLICATION_CONTROLLER, ("get",), "the template of the new pod"),
        right(kinds.DEPLOYMENT, ("get",), "whether the owner of a ReplicaSet still exists"),
        right(
            kinds.BUDGET,
            ("get", "create", "delete"),
            "a temporary budget protects what is "
            "left of a workload during an eviction, where no budget does",
        ),
        right(kinds.NODE, ("get",), "whether a target that no watch shows exists"),
        right(kinds.NODE, ("patch",), "nodes under maintenance are cordoned"),
        right(kinds.SERVICE, ("list",), "the Services that a pod leaves before it is stopped"),
        right(ENDPOINT_SLICE, ("list",), "whether a pod is still sent requests"),
        right(
            NETWORK_POLICY,
            ("list",),
            "whether a pod would escape a policy without the label that is withheld from it, where "
            "it does not belong to a Deployment",
        ),
        Right("", ("events",), ("create",), "each step is reported as an Event"),
        Right("", ("events",), ("patch",), "an Event that repeats is counted, not written again"),
    ],
    needs="moves",
)

EXTENDING = RoleDefinition(
    "rescheduler-extend",
    "answer kube-scheduler and the API server",
    [
        right(
            kinds.POD,
            ("get", "patch"),
            "the replacement of an evicted pod is marked, and a pod that had been refused, so that "
            "kube-scheduler tries it again",
        ),
        Right("", ("events",), ("create",), "a pod that overloads its node gets an Event"),
        right(
            WEBHOOK_CONFIGURATION,
            ("patch",),
            "the webhook is registered, and its CA renewed",
            names=(CONFIGURATION_NAME,),
        ),
    ],
    needs="extender",
)

CERTIFICATES = RoleDefinition(
    "rescheduler-certificates",
    "keep its certificates",
    [
        Right(
            "",
            ("secrets",),
            ("get", "patch"),
            "certificates are issued and renewed",
            names=(SECRET_NAME, f"{SECRET_NAME}{AUTHORITY_SUFFIX}"),
        ),
    ],
    is_namespaced=True,
    needs="ownCertificates",
)

CREATE_LEASE = Right(
    "coordination.k8s.io",
    ("leases",),
    ("create",),
    "a Lease that is missing is created; RBAC cannot limit this to a name",
)

ELECTING = RoleDefinition(
    "rescheduler-elect",
    "elect the replica that acts",
    [
        Right(
            "coordination.k8s.io",
            ("leases",),
            ("get", "patch"),
            "only its holder plans and moves",
            names=(LEASE_NAME,),
        ),
        CREATE_LEASE,
    ],
    is_namespaced=True,
    needs="moves",
)

SCHEDULER_ELECTING = RoleDefinition(
    "rescheduler-scheduler-elect",
    "elect the scheduler that acts",
    [
        Right(
            "coordination.k8s.io",
            ("leases",),
            ("get", "update"),
            "only its holder schedules",
            names=(SCHEDULER_LEASE_NAME,),
        ),
        CREATE_LEASE,
    ],
    is_namespaced=True,
    needs="scheduler",
)

ROLES = (PLANNING, MOVING, EXTENDING, CERTIFICATES, ELECTING)
"""All rights of the rescheduler itself."""
