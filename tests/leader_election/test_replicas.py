"""What replicas of `rescheduler run` wait for, and what they say is missing."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.cli.election_options import INSTALLED_LEASE
from rescheduler.controller.leader_election.elector import LeaderElector, LeaseOptions
from rescheduler.install.manifests import DEFAULT_NAMESPACE
from rescheduler.install.rights import LEASE_NAME
from testcluster.applying import apply
from tests.leader_election.replicas import NAMESPACE, Replicas, lease_path, replicas_on
from tests.migration.support import Sandbox, client_for

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


@pytest.fixture
def replicas(sandbox: Sandbox, tmp_path: Path) -> Iterator[Replicas]:
    with replicas_on(sandbox.cluster, tmp_path, sandbox.namespace) as found:
        yield found


def test_a_lease_expires_whatever_time_its_holder_has_written(replicas: Replicas) -> None:
    """The holder is gone, and its clock was a century ahead."""
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": replicas.lease.partition("/")[2]},
        "spec": {
            "holderIdentity": "gone_1",
            "leaseDurationSeconds": 1,
            "renewTime": "2126-01-01T00:00:00.000000Z",
        },
    }
    replicas.cluster.client.create(LEASES, body)
    replica = replicas.start()
    replica.wait_for("Became the leader")
    assert "Waiting for the lease" in replica.log
    assert '"holder": "gone_1"' in replica.log
    assert replicas.cluster.client.get(lease_path(replicas.lease))["spec"]["leaseTransitions"] == 1


def test_a_leader_whose_lease_is_deleted_stops_and_competes_again(replicas: Replicas) -> None:
    replica = replicas.start()
    replica.wait_for("Finished a round")
    replicas.cluster.client.delete(lease_path(replicas.lease))
    replica.wait_for("Lost the lease")
    assert '"why": "the Lease was deleted"' in replica.log
    replica.wait_for("Became the leader", times=2)
    replica.wait_for("Finished a round", times=2)


def test_a_leader_that_is_told_to_stop_releases_the_lease(replicas: Replicas) -> None:
    replica = replicas.start("--leader-election-lease-duration=60s")
    replica.wait_for("Finished a round")
    assert replicas.holder() == replica.name
    replica.signal(signal.SIGTERM)
    assert replica.process.wait(60) == 0
    assert replicas.holder() == ""
    # The next one need not wait for a minute.
    replicas.start().wait_for("Became the leader")


def test_a_container_that_was_killed_leads_again_before_its_own_lease_is_over(
    replicas: Replicas,
) -> None:
    account, token = replicas.new_account()
    long = ("--leader-election-lease-duration=1h", "--leader-election-renew-deadline=30m")
    instance = "--leader-election-instance=uid-of-the-pod"
    for life in (1, 2):
        killed = replicas.start(instance, *long, account=account, token=token)
        killed.wait_for("Became the leader", times=life)
        killed.signal(signal.SIGKILL)
        replicas.wait_for_end(killed)
    other = replicas.start("--leader-election-instance=uid-of-another-pod", *long)
    other.wait_for("Waiting for the lease")


def test_missing_rights_to_the_lease_are_named_and_needed_only_for_it(
    replicas: Replicas, sandbox: Sandbox
) -> None:
    account, token = limited_account(replicas, sandbox)
    refused = replicas.start(account=account, token=token)
    assert refused.process.wait(120) == 2
    message = refused.log.splitlines()[-1]
    assert f"Lease {replicas.lease}: a right is missing" in message
    assert (
        f"Grant get, create and patch of leases in coordination.k8s.io in namespace {NAMESPACE}"
        in (message)
    )
    assert "Traceback" not in refused.log
    alone = replicas.start_alone(account, token)
    alone.wait_for("Running without leader election")
    alone.wait_for("Finished a round")
    assert not replicas.cluster.client.exists(lease_path(replicas.lease))


def limited_account(replicas: Replicas, sandbox: Sandbox) -> tuple[str, str]:
    """An account in another namespace than those with all rights, which may do all but leases."""
    name = f"limited-{sandbox.namespace}"
    groups = ["", "apps", "batch", "policy", "rescheduler.dev", "discovery.k8s.io"]
    groups += ["storage.k8s.io", "scheduling.k8s.io", "resource.k8s.io"]
    group = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": sandbox.namespace}
    apply(
        replicas.cluster,
        {
            **group,
            "kind": "ClusterRole",
            "rules": [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}],
        },
        {**group, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    )
    return replicas.new_account(name, sandbox.namespace)


async def test_the_lease_of_an_installation_is_competed_for_if_there_is_one(
    sandbox: Sandbox,
) -> None:
    assert f"{DEFAULT_NAMESPACE}/{LEASE_NAME}" == INSTALLED_LEASE
    installed = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": DEFAULT_NAMESPACE, "name": LEASE_NAME},
    }
    other = f"{sandbox.namespace}/other"
    options = LeaseOptions(other, "me", preferred_key=INSTALLED_LEASE)
    async with client_for(sandbox.cluster) as client:
        await LeaderElector(client, options).acquire()
        assert sandbox.outside.get(lease_path(other))["spec"]["holderIdentity"] == "me"
        assert not sandbox.outside.exists(lease_path(INSTALLED_LEASE))
        apply(sandbox.cluster, installed)
        await LeaderElector(client, options).acquire()
    assert sandbox.outside.get(lease_path(INSTALLED_LEASE))["spec"]["holderIdentity"] == "me"
    sandbox.outside.delete(lease_path(INSTALLED_LEASE))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--leader-election-lease", "x"), "--leader-election-lease"),
        (("--leader-election-lease-duration", "15"), "expected a duration such as '30s'"),
        (
            ("--leader-election-lease-duration", "10s"),
            "--leader-election-renew-deadline 10s: expected to be shorter than the lease duration",
        ),
        (
            ("--leader-election-retry-period", "6s"),
            "--leader-election-retry-period 6s: expected at most half of the renew deadline (10s)",
        ),
        (
            ("--no-leader-election", "--leader-election-retry-period", "1s"),
            "--no-leader-election cannot be combined with other options of a lease",
        ),
        (
            ("--dry-run", "--leader-election-identity", "me"),
            "--dry-run cannot be combined with other options of a lease",
        ),
    ],
)
def test_options_of_the_lease_are_checked(
    capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], expected: str
) -> None:
    from rescheduler.cli import run

    assert run("rescheduler", ["run", *arguments]) == 2
    error = capfd.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
