"""Create built objects in a real cluster, through its API server."""

import copy

from testcluster.builders import namespace
from testcluster.client import ApiError, Client, JsonObject
from testcluster.cluster import TestCluster
from testcluster.waiting import wait_until

# Kinds whose status the controller manager writes, if it runs.
CONTROLLED_KINDS = {"ReplicaSet", "PodDisruptionBudget"}

NOT_READY_TAINT = "node.kubernetes.io/not-ready"


def apply(cluster: TestCluster, *objects: JsonObject) -> list[JsonObject]:
    """Create the objects in order, with their status and with the namespaces that are missing.

    Returns them as the server stores them. The server assigns new uids, so references to owners
    among `objects` are rewritten; an owner must come before the objects that it owns.
    """
    applier = Applier(cluster)
    created = [applier.create(built) for built in objects]
    applier.settle_nodes()
    return created


class Applier:
    """Creates objects one after the other, and remembers the uids that the server assigns."""

    def __init__(self, cluster: TestCluster) -> None:
        self.cluster = cluster
        self.client: Client = cluster.client
        self.collections: dict[tuple[str, str], tuple[str, bool]] = {}
        self.server_uids: dict[str, str] = {}
        self.known_namespaces: set[str] = set()
        self.new_nodes: list[str] = []

    def create(self, built: JsonObject) -> JsonObject:
        """Create the object and return it as the server stores it."""
        if built["kind"] == "Node":
            self.new_nodes.append(built["metadata"]["name"])
        else:
            self.settle_nodes()
        collection = self.collection_path(built)
        created = self.create_at(collection, self.with_server_uids(built))
        built_uid = built["metadata"].get("uid")
        if built_uid:
            self.server_uids[built_uid] = created["metadata"]["uid"]
        if self.status_is_ours(built):
            path = f"{collection}/{created['metadata']['name']}/status"
            return self.client.patch(path, {"status": built["status"]})
        return created

    def settle_nodes(self) -> None:
        """Wait until new nodes accept pods; otherwise all pods would go to the first that does.

        The API server taints every new node. A controller removes the taint from ready nodes.
        """
        if self.cluster.controllers and self.new_nodes:
            wait_until(self.all_nodes_are_settled, what="all new nodes accept pods")
        self.new_nodes = []

    def all_nodes_are_settled(self) -> bool:
        """Whether all new nodes are settled; checks only those that were not before."""
        self.new_nodes = [name for name in self.new_nodes if not self.is_settled(name)]
        return not self.new_nodes

    def is_settled(self, name: str) -> bool:
        """Whether the node's taints agree with its conditions."""
        node = self.client.get(f"/api/v1/nodes/{name}")
        ready = any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node["status"].get("conditions", [])
        )
        taints = {taint["key"] for taint in node["spec"].get("taints", [])}
        return not ready or NOT_READY_TAINT not in taints

    def create_at(self, collection: str, wanted: JsonObject) -> JsonObject:
        """Create the object; only a namespace may exist already."""
        try:
            return self.client.create(collection, wanted)
        except ApiError as error:
            if wanted["kind"] != "Namespace" or error.reason != "AlreadyExists":
                raise
            return self.client.get(f"{collection}/{wanted['metadata']['name']}")

    def with_server_uids(self, built: JsonObject) -> JsonObject:
        """A copy that refers to its owners by the uids that the server assigned."""
        wanted = copy.deepcopy(built)
        for reference in wanted["metadata"].get("ownerReferences", []):
            reference["uid"] = self.server_uids.get(reference["uid"], reference["uid"])
        return wanted

    def status_is_ours(self, built: JsonObject) -> bool:
        """Whether no controller will write the status of the object.

        A node is created with its status; a pending pod has none yet.
        """
        if built["kind"] == "Pod":
            return bool(built.get("status", {}).get("conditions"))
        return (
            built["kind"] in CONTROLLED_KINDS and "status" in built and not self.cluster.controllers
        )

    def collection_path(self, built: JsonObject) -> str:
        """The path to create the object at; creates its namespace if needed."""
        version, kind = built["apiVersion"], built["kind"]
        if (version, kind) not in self.collections:
            self.look_up(version)
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural, namespaced = self.collections[version, kind]
        if not namespaced:
            return f"{base}/{plural}"
        own_namespace = built["metadata"].setdefault("namespace", "default")
        self.ensure_namespace(own_namespace)
        return f"{base}/namespaces/{own_namespace}/{plural}"

    def look_up(self, version: str) -> None:
        """Read the kinds in a version of an API group from the server."""
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for resource in self.client.get(base)["resources"]:
            if "/" not in resource["name"]:
                found = resource["name"], resource["namespaced"]
                self.collections[version, resource["kind"]] = found

    def ensure_namespace(self, name: str) -> None:
        """Create the namespace if it is missing, and wait until pods can be created in it."""
        if name in self.known_namespaces:
            return
        self.known_namespaces.add(name)
        if not self.client.exists(f"/api/v1/namespaces/{name}"):
            self.client.create("/api/v1/namespaces", namespace(name))
        if self.cluster.controllers:
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            wait_until(lambda: self.client.exists(account), what=f"{name} has a service account")
