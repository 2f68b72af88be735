"""What is read of a pod, and whose it is."""

from typing import NamedTuple

import msgspec

from rescheduler.labels import MIGRATION_ID, MIGRATION_STATUS, TEMPLATE_HASHES
from rescheduler.migration.migration_labels import IN_PROGRESS
from rescheduler.model.objects import PodSpec
from rescheduler.model.resources import CPU, MEMORY, in_units, pod_amounts
from rescheduler.simulation.cluster.json_objects import (
    Json,
    controller_of,
    is_active,
    is_over,
    is_ready,
    labels_of,
)


class PodSeen(NamedTuple):
    """A pod, as far as the story is concerned."""

    key: str
    owner: str
    """The uid of its controller, or nothing."""
    workload: str
    """`Deployment shop/web`, or nothing for a pod that counts for none."""
    node: str
    cpu_millis: int
    memory_bytes: int
    belongs_to_node: bool
    """It is there because the node is: a DaemonSet's, or the node's own."""
    holds: bool
    """Whether it takes up room on its node."""
    waits: bool
    """Whether it waits for a node."""
    active: bool
    """Whether it counts for its controller."""
    ready: bool
    """... and is Ready."""
    migration: str
    """The uid of the Migration whose mark it carries."""


Sizes = dict[tuple[str, str], tuple[int, int]]


def seen(pod: Json, workload: str, sizes: Sizes) -> PodSeen:
    """What matters of a pod; `sizes` remembers what replicas ask for."""
    metadata, labels, owner = pod["metadata"], labels_of(pod), controller_of(pod)
    node = pod["spec"].get("nodeName") or ""
    over, active = is_over(pod), is_active(pod)
    uid = owner["uid"] if owner is not None else ""
    cpu, memory = _size_of(pod, uid, sizes)
    is_marked = labels.get(MIGRATION_STATUS) == IN_PROGRESS
    return PodSeen(
        key=f"{metadata['namespace']}/{metadata['name']}",
        owner=uid,
        workload=workload,
        node=node,
        cpu_millis=cpu,
        memory_bytes=memory,
        belongs_to_node=owner is not None and owner["kind"] in ("DaemonSet", "Node"),
        holds=bool(node) and not over,
        waits=not node and active,
        active=active,
        ready=active and is_ready(pod),
        migration=labels.get(MIGRATION_ID, "") if is_marked else "",
    )


def _size_of(pod: Json, owner: str, sizes: Sizes) -> tuple[int, int]:
    labels = labels_of(pod)
    version = next((labels[key] for key in TEMPLATE_HASHES if key in labels), "")
    known = sizes.get((owner, version)) if owner else None
    if known is not None:
        return known
    spec = msgspec.convert(pod["spec"], PodSpec)
    pod_level = spec.resources.requests if spec.resources is not None else {}
    amounts = in_units(pod_amounts(spec.containers, spec.init_containers, pod_level, spec.overhead))
    size = amounts.get(CPU, 0), amounts.get(MEMORY, 0)
    if owner:
        sizes[owner, version] = size
    return size
