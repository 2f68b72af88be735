"""What the measurements read of a pod."""

from typing import NamedTuple

import msgspec

from rescheduler.labels import MIGRATION_ID, MIGRATION_STATUS, TEMPLATE_HASHES
from rescheduler.migration.migration_labels import IN_PROGRESS
from rescheduler.model.objects import PodSpec
from rescheduler.model.resources import CPU, MEMORY, in_units, pod_amounts
from rescheduler.model.rules.immovable_pods import belongs_to_node
from rescheduler.simulation.cluster.json_objects import (
    Json,
    controller_of,
    is_active,
    is_finished,
    is_ready,
    labels_of,
)


class PodFacts(NamedTuple):
    """A pod, as far as it is measured."""

    key: str
    owner: str
    """The uid of its controller, or empty."""
    workload: str
    """`Deployment shop/web`, or empty if no workload counts it."""
    node: str
    cpu_millis: int
    memory_bytes: int
    belongs_to_node: bool
    """Whether it runs because the node is there: a DaemonSet's pod or a static pod."""
    occupies_node: bool
    """Whether its requests count on its node."""
    is_pending: bool
    """Whether it waits for a node."""
    is_active: bool
    """Whether it counts for its controller."""
    is_ready: bool
    """Whether it is active and Ready."""
    migration: str
    """The uid of the Migration whose mark it carries."""


RequestsCache = dict[tuple[str, str], tuple[int, int]]
"""CPU and memory by owner and version: pods of one template ask for the same."""


def pod_facts(pod: Json, workload: str, cache: RequestsCache) -> PodFacts:
    """Reads a pod; `cache` keeps the requests of its template for its siblings."""
    metadata, labels, owner = pod["metadata"], labels_of(pod), controller_of(pod)
    node = pod["spec"].get("nodeName") or ""
    finished, active = is_finished(pod), is_active(pod)
    uid = owner["uid"] if owner is not None else ""
    cpu, memory = _requests_of(pod, uid, cache)
    is_marked = labels.get(MIGRATION_STATUS) == IN_PROGRESS
    return PodFacts(
        key=f"{metadata['namespace']}/{metadata['name']}",
        owner=uid,
        workload=workload,
        node=node,
        cpu_millis=cpu,
        memory_bytes=memory,
        belongs_to_node=owner is not None and belongs_to_node(owner["kind"]),
        occupies_node=bool(node) and not finished,
        is_pending=not node and active,
        is_active=active,
        is_ready=active and is_ready(pod),
        migration=labels.get(MIGRATION_ID, "") if is_marked else "",
    )


def _requests_of(pod: Json, owner: str, cache: RequestsCache) -> tuple[int, int]:
    labels = labels_of(pod)
    version = next((labels[key] for key in TEMPLATE_HASHES if key in labels), "")
    known = cache.get((owner, version)) if owner else None
    if known is not None:
        return known
    spec = msgspec.convert(pod["spec"], PodSpec)
    pod_level = spec.resources.requests if spec.resources is not None else {}
    amounts = in_units(pod_amounts(spec.containers, spec.init_containers, pod_level, spec.overhead))
    requests = amounts.get(CPU, 0), amounts.get(MEMORY, 0)
    if owner:
        cache[owner, version] = requests
    return requests
