"""What generated pods ask of a node itself: taints, labels, ports, room and features."""

from testcluster.client import JsonObject
from tests.planning.feasibility.cluster_focus import Focus
from tests.planning.feasibility.draw import Draw
from tests.planning.feasibility.generated_nodes import (
    CORDONED,
    FPGA,
    GPU,
    HUGEPAGES,
    POOL,
    POOLS,
    RACK,
    RACKS,
    SIZE,
    ZONE,
    ZONES,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SIDECAR = "Always"

TOLERATIONS: tuple[JsonObject, ...] = (
    {"operator": "Exists"},
    {"operator": "Exists", "effect": "NoExecute"},
    {"operator": "Exists", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Exists"},
    {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "db"},
    {"key": "dedicated", "operator": "Equal", "value": ""},
    {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    {"key": "maintenance", "operator": "Exists", "effect": "PreferNoSchedule"},
    {"key": "maintenance"},
    {"key": "level", "operator": "Gt", "value": "3", "effect": "NoSchedule"},
    {"key": "level", "operator": "Lt", "value": "3"},
    {"key": "level", "operator": "Equal", "value": "5", "effect": "NoSchedule"},
    {"key": "level", "operator": "Exists"},
    {"key": CORDONED, "operator": "Exists", "effect": "NoSchedule"},
    {"key": CORDONED, "operator": "Exists", "effect": "NoExecute"},
    {"key": CORDONED, "operator": "Equal"},
)

CPU = ("100m", "0.1", "250m", "1", "1500000u", "0.0005", "2E-1", "1e-1", "333333333n", 1, 0.5, "0")
MEMORY = ("64Mi", "128Mi", "0.5Gi", "1Ki", "1e3", "100m", "123456789", "1.5G", 1073741824, "0")
STORAGE = ("1Ki", "100Mi", "1e8", "0.4Gi", "0")


def tolerations(draw: Draw, focus: Focus) -> list[JsonObject]:
    """Tolerations in all their spellings, or none."""
    if not draw.chance(focus.taints * 0.75):
        return []
    # Rarely the one that tolerates everything.
    options = TOLERATIONS if draw.chance(0.15) else TOLERATIONS[1:]
    return [dict(toleration) for toleration in draw.some(options, 1, 5)]


# ---------------------------------------------------------------- labels


def node_selector(draw: Draw, focus: Focus) -> dict[str, str] | None:
    """Labels that a node must have."""
    if not draw.chance(focus.selectors * 0.35):
        return {} if draw.chance(0.05) else None
    options = {POOL: POOLS, ZONE: ZONES, SIZE: ("8", "big", "")}
    return {key: draw.one(options[key]) for key in draw.some(tuple(options), 1, 2)}


def node_affinity(draw: Draw, focus: Focus, nodes: list[str]) -> JsonObject | None:
    """Required terms, of which one must match, and wishes, which never matter."""
    if not draw.chance(focus.selectors * 0.7):
        return None
    affinity: JsonObject = {}
    if draw.chance(0.2):
        wish = {"weight": 10, "preference": _term(draw, nodes)}
        affinity[PREFERRED] = [wish]
    if draw.chance(0.95):
        affinity[REQUIRED] = {"nodeSelectorTerms": _terms(draw, nodes)}
    return affinity


def _terms(draw: Draw, nodes: list[str]) -> list[JsonObject]:
    if draw.chance(0.04):
        return []
    if draw.chance(0.05):
        # Nothing but names: the scheduler looks at these nodes only.
        return [{"matchFields": [_names(draw, nodes, "In")]} for _ in range(draw.randint(1, 6))]
    return [_term(draw, nodes) for _ in range(draw.randint(1, 3))]


def _term(draw: Draw, nodes: list[str]) -> JsonObject:
    if draw.chance(0.06):
        return {}
    term: JsonObject = {}
    if draw.chance(0.85):
        term["matchExpressions"] = [_expression(draw) for _ in range(draw.randint(1, 2))]
    if not term or draw.chance(0.1):
        fields = [_names(draw, nodes, draw.one(("In", "NotIn")))]
        if draw.chance(0.1):
            fields.append(_names(draw, nodes, "In"))
        term["matchFields"] = fields
    return term


def _names(draw: Draw, nodes: list[str], operator: str) -> JsonObject:
    return {"key": "metadata.name", "operator": operator, "values": [draw.one(nodes)]}


def _expression(draw: Draw) -> JsonObject:
    operator = draw.one(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        limit = draw.one(("5", "-10", "8", "12", "big", "2.5", "007"))
        return {"key": SIZE, "operator": operator, "values": [limit]}
    key, values = draw.one(((ZONE, ZONES), (RACK, RACKS), (POOL, POOLS), (SIZE, ("8", "12", ""))))
    expression: JsonObject = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = draw.some(values, 1, 3)
    return expression


# ---------------------------------------------------------------- ports


def host_ports(draw: Draw) -> list[JsonObject]:
    """Ports of a container, most of them on the node's own addresses."""
    return [_port(draw) for _ in range(draw.randint(1, 2))]


def _port(draw: Draw) -> JsonObject:
    number = draw.one((80, 443, 8080, 9000, 9001))
    port: JsonObject = {"containerPort": number}
    if draw.chance(0.9):
        port["hostPort"] = number
    if draw.chance(0.6):
        port["protocol"] = draw.one(("TCP", "UDP", "SCTP"))
    if draw.chance(0.5):
        port["hostIP"] = draw.one(("0.0.0.0", "127.0.0.1", "10.0.0.1", "::", ""))
    return port


# ---------------------------------------------------------------- containers


def containers(draw: Draw, focus: Focus) -> JsonObject:
    """The part of a pod's spec that says what runs and what it asks for."""
    spec: JsonObject = {
        "containers": [
            _container(draw, focus, f"main-{number}") for number in range(draw.one((1, 1, 2, 3)))
        ]
    }
    if draw.chance(0.15 + focus.tight * 0.2):
        spec["initContainers"] = [
            _init_container(draw, focus, f"init-{number}") for number in range(draw.randint(1, 3))
        ]
    if draw.chance(0.05 + focus.tight * 0.1):
        spec["overhead"] = {"cpu": draw.one(("50m", "0.1")), "memory": draw.one(("10Mi", "1e6"))}
    if draw.chance(0.05 + focus.tight * 0.2):
        spec["resources"] = _pod_level(draw)
    return spec


def _container(draw: Draw, focus: Focus, name: str) -> JsonObject:
    container: JsonObject = {"name": name, "image": "registry.example/app:1"}
    requests = _requests(draw)
    if requests:
        container["resources"] = {"requests": requests}
    if draw.chance(focus.ports * 0.5):
        container["ports"] = host_ports(draw)
    if draw.chance(focus.features * 0.2):
        container["restartPolicy"] = "Never"
        container["restartPolicyRules"] = [
            {
                "action": draw.one(("RestartAllContainers", "Restart")),
                "exitCodes": {"operator": "In", "values": [42]},
            }
        ]
    return container


def _init_container(draw: Draw, focus: Focus, name: str) -> JsonObject:
    container = _container(draw, focus, name)
    container.pop("restartPolicy", None)
    if draw.chance(0.4):
        container["restartPolicy"] = SIDECAR
    elif draw.chance(0.5):
        big = {"cpu": draw.one(("1.5", "2", "2500m")), "memory": draw.one(("1Gi", "700Mi"))}
        container["resources"] = {"requests": big}
    return container


def _requests(draw: Draw) -> JsonObject:
    requests: JsonObject = {}
    if draw.chance(0.8):
        requests["cpu"] = draw.one(CPU)
    if draw.chance(0.75):
        requests["memory"] = draw.one(MEMORY)
    if draw.chance(0.25):
        requests["ephemeral-storage"] = draw.one(STORAGE)
    if draw.chance(0.06):
        requests[GPU] = draw.one(("1", "2", "0"))
    if draw.chance(0.05):
        requests[HUGEPAGES] = draw.one(("2Mi", "32Mi", "0"))
    if draw.chance(0.04):
        requests[FPGA] = draw.one((1, "500m", "2"))
    if draw.chance(0.01):
        # Not a resource that the scheduler knows, so it counts for nothing.
        requests["unheard-of"] = "7"
    return requests


def _pod_level(draw: Draw) -> JsonObject:
    amounts = {"cpu": draw.one(("500m", "1.2", "0")), "memory": draw.one(("256Mi", "1e9"))}
    if draw.chance(0.3):
        amounts[HUGEPAGES] = "32Mi"
    chosen = {name: amounts[name] for name in draw.some(tuple(amounts), 1, 3)}
    return {"limits" if draw.chance(0.15) else "requests": chosen}


def resize(draw: Draw, spec: JsonObject) -> JsonObject:
    """A status in which containers have, or were promised, other amounts than they ask for."""
    status: JsonObject = {}
    for field, statuses in (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ):
        found = [_resized(draw, each["name"]) for each in spec.get(field, ()) if draw.chance(0.8)]
        if found:
            status[statuses] = found
    if "resources" in spec and draw.chance(0.8):
        has = {"cpu": draw.one(("100m", "1.7", "3")), "memory": draw.one(("300Mi", "2G"))}
        status["resources"] = {"requests": has}
        if draw.chance(0.7):
            status["allocatedResources"] = {"cpu": draw.one(("2.2", "100m"))}
    if draw.chance(0.6):
        reason = draw.one(("Infeasible", "Deferred"))
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return status


def _resized(draw: Draw, container: str) -> JsonObject:
    status: JsonObject = {"name": container, "image": "", "imageID": "", "restartCount": 0}
    if draw.chance(0.9):
        has = {"cpu": draw.one(("50m", "0.7", "1100m")), "memory": draw.one(("64Mi", "900Mi"))}
        status["resources"] = {"requests": has}
    if draw.chance(0.8):
        status["allocatedResources"] = {"cpu": draw.one(("50m", "1.3")), "memory": "70Mi"}
    return status


# ---------------------------------------------------------------- features


def host_access(draw: Draw, focus: Focus) -> JsonObject:
    """The host's network, and users of the pod's own: together they need a new kubelet."""
    access: JsonObject = {}
    if draw.chance(focus.features):
        access["hostNetwork"] = draw.chance(0.7)
    if draw.chance(focus.features):
        access["hostUsers"] = draw.chance(0.3)
    return access
