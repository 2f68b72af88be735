"""Every command in the documents about installing and using it works as it is written.

A command that is new in a document fails here until it is run, or is listed with the reason why it
cannot be.
"""

from pathlib import Path

import pytest

from rescheduler.migration.memory.move_record_crd import ALL_CRDS
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import deployment, node
from testcluster.waiting import wait_until
from tests.conftest import CRDS
from tests.install.cert_manager import cert_manager_kinds
from tests.install.documented_commands import Terminal, documented_commands
from tests.install.installs import leftovers
from tests.migration.support import is_ready, node_of

pytestmark = pytest.mark.long

ONLY_NAMED = "the text only names it"
NO_KIND = "kind needs Docker"
IMAGE = "tests/image builds the image"
NO_LOGS = "simulated nodes have no logs"
NOT_RUN = {
    "make demo": "it takes a minute; what it runs is tested in tests/cli",
    "make install": "tests run in what it installs",
    "make cluster": "tests/testcluster starts clusters, tests/install installs into them",
    "make bench": "it takes many minutes",
    "make bench ONLY=traffic": "it takes many minutes",
    "make bench ONLY=install": "it takes many minutes",
    "make image": IMAGE,
    "kind create cluster --config deploy/examples/kind.yaml": NO_KIND,
    "kind load docker-image rescheduler:0.1.0": NO_KIND,
    "kubectl -n rescheduler logs deployment/rescheduler": NO_LOGS,
    "kubectl -n rescheduler logs deployment/rescheduler --follow": NO_LOGS,
    "kubectl -n rescheduler get lease rescheduler": "no replica runs that creates it",
    "kubectl get nodes,pods,… -A -o json": "tests/files reads such files",
    "kubectl apply --prune": ONLY_NAMED,
    "kubectl drain": ONLY_NAMED,
    "helm upgrade": "tests/install/real_nodes upgrades a release",
    "kubectl port-forward": ONLY_NAMED,
    "kubectl -n rescheduler port-forward pod/POD 8080:8080": "simulated nodes have no ports",
    "rescheduler status --url http://127.0.0.1:8080": "tests/cli asks replicas",
    "rescheduler run --health=:8080": "tests bind to no other address than 127.0.0.1",
    "rescheduler run --health 127.0.0.1:8080": "tests/cli runs it with ports that are free",
    "rescheduler run": ONLY_NAMED,
    "rescheduler serve": ONLY_NAMED,
    "rescheduler snapshot": ONLY_NAMED,
}
"""By command: why it is not run here."""

READING = [
    "rescheduler plan",
    "kubectl reschedule plan",
    "rescheduler explain NAMESPACE/POD",
    "rescheduler snapshot -o cluster.json.gz",
    "rescheduler plan --snapshot cluster.json.gz --policy examples/policy.yaml",
]
SIMULATING = [
    "rescheduler simulate --workload examples/workloads/shop-day.yaml --report day.html",
    "rescheduler simulate --snapshot cluster.json.gz --policy examples/policy.yaml --for 6h",
    "rescheduler simulate --compare none,examples/policy.yaml --for 1h",
]
"""They are run for a shorter time: of two values of an option, the last one counts."""
INSTALL_CRDS = "rescheduler crds | kubectl apply -f -"
RUN = "rescheduler run --policy examples/policy.yaml"
DRY_RUN = "rescheduler run --dry-run"
WATCH = "kubectl get migrations --all-namespaces --watch"
MOVE = "rescheduler move NAMESPACE/POD --to NODE --wait"
DRAIN = "rescheduler drain NODE --wait"
WATCH_STATUS = "rescheduler status --watch"
LOOKING = [
    "rescheduler status",
    "rescheduler status -o json",
    "rescheduler history",
    "kubectl get moves",
    "kubectl get migrations --all-namespaces",
    "kubectl get migrations -A -o wide",
    "kubectl uncordon NODE",
]
DOCTOR = "rescheduler doctor"
KUSTOMIZED = [
    "kubectl apply -k deploy/",
    "kubectl -n rescheduler rollout status deployment/rescheduler",
    "kubectl -n rescheduler get endpointslices",
    "kubectl -n kube-system get pods -l component=kube-scheduler -o yaml",
    "kubectl get pods -A -l scheduler.alpha.kubernetes.io/migration-status=in-progress",
    "kubectl apply -f deploy/examples/quick-test.yaml",
    "kubectl create clusterrolebinding shop-drain --clusterrole=rescheduler-user-drain "
    "--group=operators",
    "kubectl -n rescheduler create rolebinding shop-status --role=rescheduler-user-status "
    "--group=operators",
    "kubectl delete mutatingwebhookconfiguration rescheduler-steering",
    # Again, for it has just lost an object.
    "kubectl apply -k deploy/",
    "kubectl delete -k deploy/",
]
MANIFESTS = "rescheduler manifests --image YOUR-REGISTRY/rescheduler"
PRINTED = [
    f"{MANIFESTS} | kubectl apply -f -",
    f"{MANIFESTS} | kubectl delete -f -",
    "rescheduler manifests --image rescheduler:0.1.0 | kubectl apply -f -",
    f"{MANIFESTS} | kubectl delete -f -",
    f"{MANIFESTS} --install read-only | kubectl apply -f -",
    f"{MANIFESTS} --cert-manager --namespace rescheduler > rescheduler.yaml",
]
REPOSITORY = "--set image.repository=YOUR-REGISTRY/rescheduler"
HELM_INSTALLS = [
    f"helm install rescheduler charts/rescheduler -n rescheduler --create-namespace {REPOSITORY}",
    "helm install rescheduler charts/rescheduler --namespace rescheduler --create-namespace "
    f"{REPOSITORY} "
    "--set scheduler.enabled=true "
    "--set scheduler.image.repository=YOUR-REGISTRY/kube-scheduler",
    "helm install rescheduler charts/rescheduler --namespace rescheduler --create-namespace "
    f"{REPOSITORY} --set certManager.enabled=true",
]
HELM_UNINSTALL = "helm uninstall rescheduler -n rescheduler"


def test_every_documented_command_is_run_or_listed_with_the_reason() -> None:
    steps = {*READING, *SIMULATING, *LOOKING, *KUSTOMIZED, *PRINTED, *HELM_INSTALLS}
    single = {INSTALL_CRDS, RUN, DRY_RUN, WATCH, MOVE, DRAIN, DOCTOR, HELM_UNINSTALL, WATCH_STATUS}
    # What is printed to be piped is also named alone.
    printed = {"rescheduler manifests"}
    assert documented_commands() == steps | single | printed | NOT_RUN.keys()


class Shop:
    """Two pods of one application, which commands are about."""

    def __init__(self, cluster: TestCluster) -> None:
        self._client = cluster.client
        apply(cluster, node("one"), deployment("shop/web", 2, "100m"))
        wait_until(lambda: len(self._ready()) == 2, what="the pods are Ready")
        apply(cluster, node("two"))

    def _ready(self) -> list[dict[str, str]]:
        found = self._client.get("/api/v1/namespaces/shop/pods")["items"]
        return [
            {"POD": each["metadata"]["name"], "NODE": node_of(each)}
            for each in found
            if is_ready(each)
        ]

    def filled_in(self, command: str, target: str = "") -> str:
        """A command about a pod of the shop, and its node or another one."""
        pod = self._ready()[0]
        words = {"NAMESPACE/POD": f"shop/{pod['POD']}", "NODE": target or pod["NODE"]}
        for placeholder, word in words.items():
            command = command.replace(placeholder, word)
        return command

    def close(self) -> None:
        namespaces = [f"/api/v1/namespaces/{name}" for name in ("shop", "quick-test")]
        for path in namespaces:
            self._client.delete(path)
        wait_until(
            lambda: not any(map(self._client.exists, namespaces)), what="the namespaces are gone"
        )
        for name in ("one", "two"):
            self._client.delete(f"/api/v1/nodes/{name}")
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/rescheduler"
        self._client.delete(lease)


def test_commands_of_kubectl_and_rescheduler_do_what_the_documents_say(
    audited: TestCluster, tmp_path: Path
) -> None:
    shop, terminal = Shop(audited), Terminal(audited, tmp_path)
    terminal.run(INSTALL_CRDS)
    for command in READING:
        terminal.run(shop.filled_in(command))
    for command in SIMULATING:
        terminal.run(f"{command} --for 1m")
    terminal.start(DRY_RUN, "Finished a round").stop()
    controller = terminal.start(RUN, "Finished a round")
    terminal.run(shop.filled_in(MOVE, target="two"))
    terminal.run(shop.filled_in(DRAIN))
    terminal.start(WATCH, "web-").stop()
    terminal.start(WATCH_STATUS, "Migrations: ").stop()
    controller.stop()
    for command in LOOKING:
        terminal.run(shop.filled_in(command))
    for command in KUSTOMIZED:
        terminal.run(command)
        if command == "kubectl -n rescheduler get endpointslices":
            # Nothing of ours runs on simulated nodes, and that is what it says.
            assert "✗ leader" in terminal.run(DOCTOR, code=1)
    binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/shop-drain"
    audited.client.delete(binding)
    for command in PRINTED:
        terminal.run(command)
    terminal.run(f"{MANIFESTS} --install read-only | kubectl delete -f -")
    shop.close()
    wait_until(lambda: leftovers(audited) == [], what="nothing is left")


def test_commands_of_helm_do_what_the_documents_say(
    audited: TestCluster, helm_binary: Path, tmp_path: Path
) -> None:
    terminal = Terminal(audited, tmp_path, helm_binary)
    names = [crd["metadata"]["name"] for crd in ALL_CRDS]
    with cert_manager_kinds(audited):
        for command in HELM_INSTALLS:
            terminal.run(command)
            terminal.run(HELM_UNINSTALL)
            wait_until(
                lambda: not any(audited.client.exists(f"{CRDS}/{name}") for name in names),
                what="the CustomResourceDefinitions are gone",
            )
    audited.client.delete("/api/v1/namespaces/rescheduler")
    wait_until(lambda: leftovers(audited) == [], what="nothing is left")
