"""Clusters of a few lines. CPU and memory go together, so a node's load is one number.

A node has 10 CPUs and 40 GiB unless said otherwise, a pod 4 GiB per CPU. A pod of one CPU is
therefore a tenth of an ordinary node.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from rescheduler.files.policy_file import read_policy
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy
from testcluster.builders import node, pod, replicaset, statefulset
from testcluster.client import JsonObject
from testcluster.snapshots import snapshot_of

GIB_PER_CPU = 4
MAINTENANCE = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"

Objects = list[JsonObject]


def machine(name: str, cpu: int = 10, price: float | None = None, **options: Any) -> JsonObject:
    """A node with 4 GiB per CPU."""
    made = node(name, cpu=str(cpu), memory=f"{cpu * GIB_PER_CPU}Gi", **options)
    if price is not None:
        made["metadata"]["annotations"]["rescheduler.dev/node-cost"] = str(price)
    return made


def machines(names: Iterable[str], **options: Any) -> Objects:
    """Nodes that are alike."""
    return [machine(name, **options) for name in names]


def replicas(name: str, nodes: Iterable[str], cpu: float = 1, **options: Any) -> Objects:
    """A ReplicaSet and a pod on each of the named nodes; of 0 CPUs: without requests."""
    return _with_pods(replicaset, name, list(nodes), cpu, options)


def stateful(name: str, nodes: Iterable[str], cpu: float = 1, **options: Any) -> Objects:
    """A StatefulSet and a pod on each of the named nodes."""
    return _with_pods(statefulset, name, list(nodes), cpu, options)


def _with_pods(
    kind: Any, name: str, nodes: Sequence[str], cpu: float, options: dict[str, Any]
) -> Objects:
    owner = kind(f"shop/{name}", replicas=len(nodes))
    labels = {"app": name, **options.pop("labels", {})}
    asked = requests(cpu)
    return [
        owner,
        *(
            pod(f"shop/{name}-{row}", on=on, owner=owner, labels=labels, **asked, **options)
            for row, on in enumerate(nodes)
        ),
    ]


def staying(name: str, on: str, cpu: float) -> JsonObject:
    """A pod that nobody moves: it has no owner."""
    return pod(f"shop/{name}", on=on, labels={"app": name}, **requests(cpu))


def requests(cpu: float) -> dict[str, Any]:
    """So many CPUs, and the memory that goes with them."""
    if not cpu:
        return {}
    return {"cpu": f"{round(cpu * 1000)}m", "memory": f"{round(cpu * GIB_PER_CPU * 1024)}Mi"}


def policy(*strategies: str, **arguments: Any) -> Policy:
    """What a policy file with these arguments says."""
    options = {"enabledStrategies": strategies, "planningTimeout": "500ms", **arguments}
    return read_policy("policy", msgspec.json.encode(options))


def plan_for(objects: Objects, rules: Policy) -> Plan:
    """The plan of a single round."""
    return make_plan(snapshot_of(objects), rules)


def loads(plan: Plan) -> dict[str, int]:
    """The CPU in use on each node after the plan, in percent."""
    return {name: round(100 * load["cpu"]) for name, load in plan.after.per_node.items()}


def gap(plan: Plan) -> int:
    """How far apart the fullest and the emptiest node are after the plan, in percent."""
    return max(loads(plan).values()) - min(loads(plan).values())


def places(objects: Sequence[JsonObject], *apps: str) -> Counter[str]:
    """How many pods of these apps each node has."""
    return Counter(
        each["spec"]["nodeName"]
        for each in objects
        if each["kind"] == "Pod" and each["metadata"]["labels"].get("app") in apps
    )
