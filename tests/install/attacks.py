"""What somebody could try who has got hold of the controller's token.

Each attack is one request, or the last of a few, for an object of its own. It raises what the API
server answers if that refuses. `ATTACKS` names the policy that has to stop it.
"""

import copy
from collections.abc import Callable
from itertools import count
from typing import Any

from rescheduler.extender.webhook.registration import (
    CONFIGURATION_NAME,
    WebhookAddress,
    configuration,
)
from rescheduler.install.options import CONTAINER_SECURITY, POD_SECURITY
from rescheduler.labels import (
    CORDONED_BY,
    CREATED_BY_US,
    MIGRATION_ID,
    MIGRATION_STATUS,
    ORIGINAL_POD,
    PLACING_GATE,
)
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import budget, node, pod
from testcluster.client import Client, JsonObject
from tests.migration.support import MIGRATIONS

ALLOWED, EXCLUDED, OWN = "shop", "kube-system", "rescheduler-system"
WEBHOOKS = (
    f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{CONFIGURATION_NAME}"
)
HELD: JsonObject = {"schedulingGates": [{"name": "rescheduler.test/held"}]}
"""A gate of somebody else, so that no scheduler touches the pods of these tests."""
numbers = count(1)


class Attacker:
    """Requests with the token, and an administrator who sets up what is attacked."""

    def __init__(self, cluster: TestCluster, token: str) -> None:
        self.cluster = cluster
        self.admin = cluster.client
        self.thief = Client(cluster.server, token, cluster.ca_file)

    # ------------------------------------------------------------ what is attacked

    def pod(self, namespace: str = ALLOWED) -> str:
        """The path of a pod of somebody else."""
        name = f"victim-{next(numbers)}"
        apply(self.cluster, pod(f"{namespace}/{name}", labels={"app": "web"}, **HELD))
        return f"/api/v1/namespaces/{namespace}/pods/{name}"

    def node(self, **fields: Any) -> str:
        """The path of a tainted node."""
        name = f"victim-{next(numbers)}"
        built = node(name, managed=False, ready=False)
        built["spec"] = {"taints": [{"key": "secrets", "effect": "NoSchedule"}], **fields}
        self.admin.create("/api/v1/nodes", built)
        return f"/api/v1/nodes/{name}"

    # ------------------------------------------------------------ requests

    def create_pod(
        self, namespace: str = ALLOWED, *, is_gated: bool = True, **spec: Any
    ) -> JsonObject:
        """Create a pod that looks like the new one of a migration; `spec` is what is wanted."""
        return self.thief.create(
            f"/api/v1/namespaces/{namespace}/pods", new_pod(is_gated=is_gated, **spec)
        )

    def create_container(self, **fields: Any) -> None:
        """Create a pod with such a container."""
        self.create_pod(containers=[{"name": "app", "image": "evil", **fields}])

    def patch(self, path: str, **fields: Any) -> None:
        """A merge patch."""
        self.thief.patch(path, fields)

    def change_image(self, path: str, **spec: Any) -> None:
        """A strategic patch, which leaves the rest of the container as it is."""
        containers = [{"name": "app", "image": "evil"}]
        body = {"spec": {"containers": containers, **spec}}
        self.thief.request("PATCH", path, body, "application/strategic-merge-patch+json")

    def set_condition(self, path: str, **condition: str) -> None:
        """Write the conditions of a pod."""
        self.thief.patch(f"{path}/status", {"status": {"conditions": [condition]}})

    def register(self, **changes: Any) -> None:
        """Register the webhook as the controller does, but for some fields of it."""
        address = WebhookAddress(service=f"{OWN}/rescheduler")
        wanted = configuration(address, b"CA", "token", [])
        wanted["webhooks"][0] |= changes
        self.thief.patch(WEBHOOKS, {"webhooks": wanted["webhooks"]})

    def create_migration(self, namespace: str = ALLOWED, **fields: Any) -> None:
        """Create a Migration as one is planned, but for some fields of it."""
        spec = {"pod": {"name": "p", "uid": "u"}, "targetNode": "n", "strategy": "LoadBalancing"}
        body = {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "Migration",
            "metadata": {"name": f"attack-{next(numbers)}"},
            "spec": spec | fields,
        }
        self.thief.create(MIGRATIONS.format(namespace), body)


def new_pod(*, is_gated: bool = True, **spec: Any) -> JsonObject:
    """A pod that looks like the new one of a migration."""
    built = pod(f"x/web-{next(numbers)}", **spec)
    del built["metadata"]["namespace"]
    built["metadata"] |= {
        "generateName": "web-",
        "labels": {"app": "web", MIGRATION_ID: "1", MIGRATION_STATUS: "in-progress"},
        "annotations": {ORIGINAL_POD: "1"},
    }
    built["spec"] |= {"schedulingGates": [{"name": PLACING_GATE}]} if is_gated else {}
    return built


# ---------------------------------------------------------------- pods that are created


def run_a_pod_in_an_excluded_namespace(attacker: Attacker) -> None:
    attacker.create_pod(EXCLUDED)


def pass_for_a_pod_of_the_webhook_service(attacker: Attacker) -> None:
    container = {"name": "app", "image": "evil", "securityContext": CONTAINER_SECURITY}
    attacker.create_pod(OWN, containers=[container], securityContext=POD_SECURITY)


def mount_a_secret_in_a_pod_that_is_no_part_of_a_move(attacker: Attacker) -> None:
    secret = {"name": "keys", "secret": {"secretName": "keys"}}
    attacker.create_pod(is_gated=False, volumes=[secret])


def mount_the_disk_of_a_node(attacker: Attacker) -> None:
    attacker.create_pod(volumes=[{"name": "disk", "hostPath": {"path": "/etc/kubernetes"}}])


def join_the_network_of_a_node(attacker: Attacker) -> None:
    attacker.create_pod(hostNetwork=True)


def see_the_processes_of_a_node(attacker: Attacker) -> None:
    attacker.create_pod(hostPID=True)


def run_a_privileged_container(attacker: Attacker) -> None:
    attacker.create_container(securityContext={"privileged": True})


def run_a_privileged_container_first(attacker: Attacker) -> None:
    first = {"name": "first", "image": "evil", "securityContext": {"privileged": True}}
    attacker.create_pod(initContainers=[first])


def add_a_capability(attacker: Attacker) -> None:
    attacker.create_container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}})


def take_a_port_of_a_node(attacker: Attacker) -> None:
    attacker.create_container(ports=[{"containerPort": 80, "hostPort": 80}])


# ---------------------------------------------------------------- pods that are there


def change_an_image(attacker: Attacker) -> None:
    attacker.change_image(attacker.pod())


def mark_a_pod_in_an_excluded_namespace(attacker: Attacker) -> None:
    attacker.patch(attacker.pod(EXCLUDED), metadata={"labels": {MIGRATION_ID: "1"}})


def change_the_image_of_its_own_new_pod_while_its_gate_is_opened(attacker: Attacker) -> None:
    name = attacker.create_pod()["metadata"]["name"]
    attacker.change_image(f"/api/v1/namespaces/{ALLOWED}/pods/{name}", schedulingGates=None)


def tolerate_every_taint(attacker: Attacker) -> None:
    path = attacker.pod()
    present = attacker.admin.get(path)["spec"]["tolerations"]
    attacker.patch(path, spec={"tolerations": [*present, {"operator": "Exists"}]})


def open_the_gate_of_somebody_else(attacker: Attacker) -> None:
    attacker.patch(attacker.pod(), spec={"schedulingGates": None})


def take_a_pod_out_of_its_network_policy(attacker: Attacker) -> None:
    attacker.patch(attacker.pod(), metadata={"labels": {"app": None}})


def take_a_pod_out_of_its_network_policy_by_its_status(attacker: Attacker) -> None:
    attacker.patch(f"{attacker.pod()}/status", metadata={"labels": {"app": None}})


def write_an_annotation_of_somebody_else(attacker: Attacker) -> None:
    attacker.patch(attacker.pod(), metadata={"annotations": {"sidecar.example/inject": "evil"}})


def give_a_pod_to_another_owner(attacker: Attacker) -> None:
    owner = {"apiVersion": "v1", "kind": "Secret", "name": "gone", "uid": "gone"}
    attacker.patch(attacker.pod(), metadata={"ownerReferences": [owner]})


def point_the_address_of_a_pod_elsewhere(attacker: Attacker) -> None:
    status = {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}
    attacker.patch(f"{attacker.pod()}/status", status=status)


def have_a_broken_pod_sent_requests(attacker: Attacker) -> None:
    attacker.set_condition(attacker.pod(), type="Ready", status="True")


def declare_the_containers_of_a_pod_ready(attacker: Attacker) -> None:
    attacker.set_condition(attacker.pod(), type="ContainersReady", status="True")


def reserve_a_node_for_somebody(attacker: Attacker) -> None:
    attacker.patch(f"{attacker.pod()}/status", status={"nominatedNodeName": "node"})


def delete_a_pod(attacker: Attacker) -> None:
    attacker.thief.delete(attacker.pod())


def pass_a_pod_for_a_new_one_to_delete_it(attacker: Attacker) -> None:
    path = attacker.pod()
    marks = {"labels": {MIGRATION_ID: "1", MIGRATION_STATUS: "in-progress"}}
    attacker.patch(path, metadata={**marks, "annotations": {ORIGINAL_POD: "1"}})
    attacker.thief.delete(path)


def mark_a_pod_as_created_to_delete_it(attacker: Attacker) -> None:
    path = attacker.pod()
    attacker.set_condition(path, type=CREATED_BY_US, status="True")
    attacker.thief.delete(path)


def evict_a_pod_in_an_excluded_namespace(attacker: Attacker) -> None:
    path = attacker.pod(EXCLUDED)
    metadata = {"name": path.rpartition("/")[2], "namespace": EXCLUDED}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    attacker.thief.create(f"{path}/eviction", body)


# ---------------------------------------------------------------- nodes


def drive_every_pod_off_a_node(attacker: Attacker) -> None:
    attacker.patch(attacker.node(), spec={"taints": [{"key": "evil", "effect": "NoExecute"}]})


def remove_the_taints_of_a_node(attacker: Attacker) -> None:
    attacker.patch(attacker.node(), spec={"taints": None})


def label_a_node_as_another_kind(attacker: Attacker) -> None:
    attacker.patch(attacker.node(), metadata={"labels": {"pool": "secrets"}})


def cordon_a_node_without_a_trace(attacker: Attacker) -> None:
    attacker.patch(attacker.node(), spec={"unschedulable": True})


def uncordon_a_node_of_somebody_else(attacker: Attacker) -> None:
    attacker.patch(attacker.node(unschedulable=True), spec={"unschedulable": None})


def pass_a_cordoned_node_for_one_of_ours_to_uncordon_it(attacker: Attacker) -> None:
    path = attacker.node(unschedulable=True)
    attacker.patch(path, metadata={"annotations": {CORDONED_BY: "true"}})
    attacker.patch(
        path, metadata={"annotations": {CORDONED_BY: None}}, spec={"unschedulable": None}
    )


# ---------------------------------------------------------------- everything else


def have_every_write_sent_to_a_server_of_its_own(attacker: Attacker) -> None:
    everything = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": ["*"],
    }
    address = {"url": "https://192.0.2.1/", "caBundle": None}
    attacker.register(clientConfig=address, rules=[everything], matchConditions=None)


def have_new_pods_sent_to_another_service(attacker: Attacker) -> None:
    attacker.register(clientConfig={"service": {"namespace": ALLOWED, "name": "evil"}})


def be_asked_about_every_secret(attacker: Attacker) -> None:
    secrets = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["secrets"],
    }
    attacker.register(rules=[secrets])


def be_asked_about_system_pods(attacker: Attacker) -> None:
    attacker.register(namespaceSelector={})


def have_new_pods_refused_while_nobody_answers(attacker: Attacker) -> None:
    attacker.register(failurePolicy="Fail")


def create_a_migration_with_limits_of_its_own(attacker: Attacker) -> None:
    attacker.create_migration(timeoutSeconds=86_400)


def create_a_migration_in_an_excluded_namespace(attacker: Attacker) -> None:
    attacker.create_migration(EXCLUDED)


def delete_the_budget_of_somebody_else(attacker: Attacker) -> None:
    name = f"victim-{next(numbers)}"
    apply(attacker.cluster, budget(f"{ALLOWED}/{name}", min_available=2))
    attacker.thief.delete(f"/apis/policy/v1/namespaces/{ALLOWED}/poddisruptionbudgets/{name}")


def forbid_evictions_with_a_budget(attacker: Attacker) -> None:
    built = copy.deepcopy(budget(f"{ALLOWED}/attack-{next(numbers)}", max_unavailable=0))
    attacker.thief.create(f"/apis/policy/v1/namespaces/{ALLOWED}/poddisruptionbudgets", built)


Attack = Callable[[Attacker], None]
ATTACKS: dict[Attack, str] = {
    run_a_pod_in_an_excluded_namespace: "excluded-namespaces",
    pass_for_a_pod_of_the_webhook_service: "new-pods",
    mount_a_secret_in_a_pod_that_is_no_part_of_a_move: "new-pods",
    mount_the_disk_of_a_node: "new-pods",
    join_the_network_of_a_node: "new-pods",
    see_the_processes_of_a_node: "new-pods",
    run_a_privileged_container: "new-pods",
    run_a_privileged_container_first: "new-pods",
    add_a_capability: "new-pods",
    take_a_port_of_a_node: "new-pods",
    change_an_image: "changed-pods",
    mark_a_pod_in_an_excluded_namespace: "excluded-namespaces",
    change_the_image_of_its_own_new_pod_while_its_gate_is_opened: "changed-pods",
    tolerate_every_taint: "changed-pods",
    open_the_gate_of_somebody_else: "changed-pods",
    take_a_pod_out_of_its_network_policy: "changed-pods",
    take_a_pod_out_of_its_network_policy_by_its_status: "pod-status",
    write_an_annotation_of_somebody_else: "changed-pods",
    give_a_pod_to_another_owner: "changed-pods",
    point_the_address_of_a_pod_elsewhere: "pod-status",
    have_a_broken_pod_sent_requests: "pod-status",
    declare_the_containers_of_a_pod_ready: "pod-status",
    reserve_a_node_for_somebody: "pod-status",
    delete_a_pod: "deleted-pods",
    pass_a_pod_for_a_new_one_to_delete_it: "deleted-pods",
    mark_a_pod_as_created_to_delete_it: "pod-status",
    evict_a_pod_in_an_excluded_namespace: "excluded-namespaces",
    drive_every_pod_off_a_node: "nodes",
    remove_the_taints_of_a_node: "nodes",
    label_a_node_as_another_kind: "nodes",
    cordon_a_node_without_a_trace: "nodes",
    uncordon_a_node_of_somebody_else: "nodes",
    pass_a_cordoned_node_for_one_of_ours_to_uncordon_it: "nodes",
    have_every_write_sent_to_a_server_of_its_own: "webhook",
    have_new_pods_sent_to_another_service: "webhook",
    be_asked_about_every_secret: "webhook",
    be_asked_about_system_pods: "webhook",
    have_new_pods_refused_while_nobody_answers: "webhook",
    create_a_migration_with_limits_of_its_own: "migrations",
    create_a_migration_in_an_excluded_namespace: "excluded-namespaces",
    delete_the_budget_of_somebody_else: "disruption-budgets",
    forbid_evictions_with_a_budget: "disruption-budgets",
}
"""By attack: the policy that stops it, without the `rescheduler-` of its name."""
