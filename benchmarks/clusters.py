"""Snapshots of generated clusters, for what is measured without an API server."""

from collections.abc import Iterable, Iterator

from rescheduler.model.snapshot import Snapshot
from testcluster.client import JsonObject
from testcluster.large import generate_large_cluster
from testcluster.snapshots import snapshot_of

NAME_LABEL = "app.kubernetes.io/name"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def large_snapshot(nodes: int, pods: int, templates: int, with_rules: bool = False) -> Snapshot:
    """A generated cluster; with rules, every fifth workload's pods mind their neighbours."""
    objects = generate_large_cluster(nodes, pods, templates=templates)
    return snapshot_of(mind_neighbours(objects) if with_rules else objects)


def mind_neighbours(objects: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """The same objects, but pods of every fifth workload have hard rules about others."""
    number_of: dict[str, int] = {}
    for item in objects:
        if item["kind"] != "Pod":
            yield item
            continue
        name = item["metadata"]["labels"][NAME_LABEL]
        number = number_of.setdefault(name, len(number_of))
        rules = rules_for(name, number // 5) if number % 5 == 0 else {}
        yield {**item, "spec": {**item["spec"], **rules}}


def rules_for(name: str, number: int) -> JsonObject:
    """Spread over zones, apart on nodes, near their own kind in a zone, or spread over nodes."""
    own = {"labelSelector": {"matchLabels": {NAME_LABEL: name}}}
    zone, host = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
    spread = {"maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule", **own}
    match number % 4:
        case 0:
            return {"topologySpreadConstraints": [{"topologyKey": zone, **spread}]}
        case 1:
            return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": host, **own}]}}}
        case 2:
            return {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": zone, **own}]}}}
    return {
        "topologySpreadConstraints": [
            {"topologyKey": zone, **spread},
            {"topologyKey": host, **spread},
        ]
    }
