"""What replicas of `rescheduler run` wait for, and what they say is missing."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.cli.election_options import INSTALLED_LEASE
from rescheduler.controller.leader_election.elector import LeaderElector, LeaseOptions
from rescheduler.controller.leader_election.lease_timing import LeaseDurations
from rescheduler.install.manifests import DEFAULT_NAMESPACE
from rescheduler.install.rights import LEASE_NAME
from testcluster.applying import apply
from tests.leader_election.replicas import NAMESPACE, Replica, Replicas, lease_path, replicas_on
from tests.migration.support import Sandbox, client_for

DURATIONS = LeaseDurations(2.0, 1.0, 0.2)


@pytest.fixture
def replicas(sandbox: Sandbox, tmp_path: Path) -> Iterator[Replicas]:
    with replicas_on(sandbox.cluster, tmp_path, sandbox.namespace) as found:
        yield found


def test_a_lease_expires_whatever_time_its_holder_has_written(replicas: Replicas) -> None:
    """The holder is gone, and its clock was a century ahead."""
    replicas.delete_lease()
    century = "2126-01-01T00:00:00.000000Z"
    replicas.create_lease(holderIdentity="gone_1", leaseDurationSeconds=1, renewTime=century)
    replica = replicas.start()
    replica.wait_for("Became the leader")
    assert "Waiting for the lease" in replica.log
    assert '"holder": "gone_1"' in replica.log
    assert replicas.cluster.client.get(lease_path(replicas.lease))["spec"]["leaseTransitions"] == 1


def test_a_leader_whose_lease_is_deleted_stops_and_competes_again(replicas: Replicas) -> None:
    replica = replicas.start()
    replica.wait_for("Finished a round")
    replicas.delete_lease()
    replica.wait_for("Lost the lease")
    assert '"why": "the Lease was deleted"' in replica.log
    replica.wait_for("Became the leader", times=2)
    replica.wait_for("Finished a round", times=2)


def test_two_replicas_that_find_no_lease_create_one_and_one_leads(replicas: Replicas) -> None:
    replicas.delete_lease()
    both = [replicas.start(), replicas.start()]
    leader = replicas.leader()
    leader.wait_for("Finished a round")
    assert count_logged(both, "Created the lease") == 1
    assert count_logged(both, "Became the leader") == 1


def test_one_of_two_replicas_leads_again_after_the_lease_was_deleted(replicas: Replicas) -> None:
    both = [replicas.start()]
    both[0].wait_for("Finished a round")
    both.append(replicas.start())
    both[1].wait_for("Waiting for the lease")
    replicas.delete_lease()
    both[0].wait_for("Lost the lease")
    replicas.leader().wait_for("Became the leader")
    assert count_logged(both, "Created the lease") == 1
    assert count_logged(both, "Became the leader") == 2


def count_logged(replicas: list[Replica], text: str) -> int:
    """How often any of them has logged something."""
    return sum(replica.log.count(text) for replica in replicas)


async def test_whoever_creates_the_lease_waits_until_a_former_leader_has_stopped(
    sandbox: Sandbox,
) -> None:
    """The former one has renewed its Lease just before that was deleted, and knows nothing yet."""
    path = lease_path(key := f"{sandbox.namespace}/deleted")
    async with client_for(sandbox.cluster) as client:
        former, *others = (
            LeaderElector(client, LeaseOptions(key, f"{n}", DURATIONS)) for n in "abc"
        )
        await former.acquire()
        sandbox.outside.delete(path)
        racing = [asyncio.create_task(other.acquire()) for other in others]
        try:
            await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
            assert former.fence.refusal("a write", 0) is not None
            assert former.fence.held is not None, "nobody has told it"
            (leader,) = (other for other in others if other.fence.held is not None)
            assert sandbox.outside.get(path)["spec"]["holderIdentity"] == leader.identity
        finally:
            for task in racing:
                task.cancel()


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
    replicas.delete_lease()
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
    options = LeaseOptions(other, "me", DURATIONS, preferred_key=INSTALLED_LEASE)
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
