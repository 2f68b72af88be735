"""Names that tenants write into their objects never become a path that we request."""

import json
from collections.abc import Callable
from urllib.parse import unquote

import pytest

from rescheduler.labels import PLACING_GATE
from rescheduler.migration.memory.move_record import MOVE_RECORD
from rescheduler.migration.memory.move_record_crd import ALL_CRDS
from rescheduler.migration.migration_object import MIGRATION
from rescheduler.migration.services.endpoint_slices import ENDPOINT_SLICE
from rescheduler.migration.state_machine.eviction import budget_name
from rescheduler.model.kinds import KINDS, SERVICE
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import budget, namespace, node, pod, replicaset
from testcluster.client import ApiError, JsonObject
from testcluster.waiting import wait_until
from tests.conftest import CRDS
from tests.migration.support import ID, STATUS, Sandbox, controller_on

NAME, ORIGINAL = "rescheduler.dev/migration", "scheduler.alpha.kubernetes.io/original-pod"
PREVIOUS = "rescheduler.dev/previous-marks"
HOSTILE = [
    "../../../../../../api/v1/pods?x=/y",
    "../../../../../../api/v1/pods",
    "x?watch=true",
    "?watch=true",
    "%2e%2e",
    "%2e%2e%2f%2e%2e%2fpods",
    "..",
    ".",
    "",
    "/",
    "//evil",
    "x#y",
    "x;y",
    "x y",
    "x\ny",
    "x\r\nHost: evil",
    "x\x1b[2Jy",
    "x\x00y",
    "Ünïcödé",
    "n" * 300,
    "UPPER",
    "-x",
]


COLLECTIONS = {kind.path for kind in (*KINDS, MIGRATION, MOVE_RECORD, SERVICE, ENDPOINT_SLICE)}


@pytest.fixture
def tenant(fresh_cluster: Callable[..., TestCluster]) -> Sandbox:
    """A namespace on an API server that logs every request, and nothing else."""
    cluster = fresh_cluster(controllers=False, scheduler=False, kwok=False, audit=True)
    for crd in ALL_CRDS:
        cluster.client.create(CRDS, crd)
    cluster.client.create("/api/v1/namespaces", namespace("tenant"))
    migrations = "/apis/rescheduler.dev/v1alpha1/migrations"

    def are_served() -> bool:
        try:
            return cluster.client.exists(migrations)
        except ApiError:
            return False

    wait_until(are_served, what="Migrations are served")
    return Sandbox(cluster, "tenant")


def leftover(name: str, annotations: dict[str, str]) -> JsonObject:
    """A pod that says it is part of a migration."""
    body = pod(f"tenant/{name}")
    metadata = body["metadata"]
    metadata["labels"] = {ID: "any", STATUS: "in-progress"}
    metadata["annotations"] = annotations
    return body


def owned_by(kind: str, name: str, uid: str = "u") -> JsonObject:
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def requests(cluster: TestCluster) -> list[tuple[str, str]]:
    """The verbs and paths that the controller has asked for, as they were sent."""
    return [(event["verb"], event["requestURI"]) for event in cluster.audited("rescheduler/")]


def reads(cluster: TestCluster) -> list[str]:
    """The paths of single objects and lists that were read, without those of list-watches."""
    return [
        path
        for verb, path in requests(cluster)
        if verb in ("get", "list", "watch") and not is_of_list_watch(path) and path != "/version"
    ]


def is_of_list_watch(path: str) -> bool:
    """Whether a list-watch asks for a path, or a look at our rights; no hostile name has such a
    query."""
    collection, _, query = path.partition("?")
    return collection in COLLECTIONS and ("limit=" in query or "resourceVersion=" in query)


async def test_hostile_annotations_are_never_requested_and_such_leftovers_are_cleaned_up(
    tenant: Sandbox,
) -> None:
    for number, hostile in enumerate(HOSTILE):
        apply(tenant.cluster, leftover(f"migration-{number}", {NAME: hostile}))
        notes = {ORIGINAL: "u", f"{ORIGINAL}-name": hostile, NAME: hostile}
        created = leftover(f"original-{number}", notes)
        created["spec"]["schedulingGates"] = [{"name": PLACING_GATE}]
        apply(tenant.cluster, created)
        uid = f"any-{number}"
        temporary = budget(f"tenant/{budget_name(uid)}", max_unavailable=1, selector={"app": "x"})
        temporary["metadata"]["labels"] = {ID: uid}
        temporary["metadata"]["annotations"] = {NAME: hostile}
        apply(tenant.cluster, temporary)
    async with controller_on(tenant.cluster):
        await tenant.until(lambda: not tenant.leftovers(), "all are cleaned up")
    count = len(HOSTILE)
    left = {body["metadata"]["name"] for body in tenant.pods()}
    assert left == {f"migration-{number}" for number in range(count)}, "copies are deleted"
    own = {
        f"/api/v1/namespaces/tenant/pods/{kind}-{n}"
        for kind in ("migration", "original")
        for n in range(count)
    }
    own |= {
        f"/apis/policy/v1/namespaces/tenant/poddisruptionbudgets/{budget_name(f'any-{n}')}"
        for n in range(count)
    }
    found = reads(tenant.cluster)
    assert set(found) == own
    # Twice at most: the watch shows a pod again after it was cleaned up.
    assert max(map(found.count, found)) <= 2


async def test_saved_values_that_the_server_refuses_are_not_sent_for_ever(tenant: Sandbox) -> None:
    cost = "controller.kubernetes.io/pod-deletion-cost"
    saved = {ID: "no label value!", STATUS: "in-progress", NAME: "x" * 1000}
    notes = {
        PREVIOUS: json.dumps(saved),
        cost: "-2147483647",
        "rescheduler.dev/previous-deletion-cost": "no number",
    }
    apply(tenant.cluster, leftover("saved", notes))
    async with controller_on(tenant.cluster):
        await tenant.until(lambda: not tenant.leftovers(), "it is cleaned up")
    metadata = (tenant.pod("saved") or {})["metadata"]
    assert ID not in metadata.get("labels", {})
    assert cost not in metadata.get("annotations", {})


async def test_hostile_owner_references_name_no_workload(tenant: Sandbox) -> None:
    apply(tenant.cluster, node("a"), node("b"))
    names = [name for name in HOSTILE if name]
    for number, hostile in enumerate(names):
        by_pod = pod(f"tenant/by-pod-{number}", node="a")
        kind = "ReplicaSet" if number % 2 else "ReplicationController"
        by_pod["metadata"]["ownerReferences"] = [owned_by(kind, hostile)]
        owner = replicaset(f"tenant/rs-{number}", replicas=0)
        owner["metadata"]["ownerReferences"] = [owned_by("Deployment", hostile)]
        apply(tenant.cluster, by_pod, owner)
        uid = tenant.outside.get(tenant.path("replicasets", f"rs-{number}"))["metadata"]["uid"]
        by_set = pod(f"tenant/by-set-{number}", node="a")
        by_set["metadata"]["ownerReferences"] = [owned_by("ReplicaSet", f"rs-{number}", uid)]
        apply(tenant.cluster, by_set)
    moves = [tenant.migrate(body, "b") for body in tenant.pods()]
    assert len(moves) == 2 * len(names)
    async with controller_on(tenant.cluster):
        await tenant.until(
            lambda: all(tenant.status(move).get("message") for move in moves), "all were looked at"
        )
    allowed = (
        "/api/v1/namespaces/tenant/pods/by-",
        "/apis/apps/v1/namespaces/tenant/replicasets/rs-",
    )
    migrations = "/apis/rescheduler.dev/v1alpha1/namespaces/tenant/migrations/move-"
    for path in reads(tenant.cluster):
        assert unquote(path) == path, "no object has a name that needs quoting"
        assert path.startswith((*allowed, migrations)) or path in (
            "/api/v1/namespaces/tenant/services",
        ), path


@pytest.mark.parametrize("field", ["pod", "target"])
async def test_the_server_refuses_migrations_with_hostile_names(
    tenant: Sandbox, field: str
) -> None:
    for hostile in HOSTILE:
        name = hostile if field == "pod" else "x"
        body = {"metadata": {"name": name, "uid": "u"}}
        with pytest.raises(ApiError, match=r"nvalid|should"):
            tenant.migrate(body, hostile if field == "target" else "a", name="m")
