"""What somebody can do who has the controller's token, without admission policies and with them.

On a real API server, as its service account, with exactly the roles that are shipped.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from rescheduler.install.manifests import manifests
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import namespace
from testcluster.client import ApiError, JsonObject
from testcluster.waiting import wait_until
from tests.install.attacks import (
    ALLOWED,
    ATTACKS,
    EXCLUDED,
    OWN,
    WEBHOOKS,
    Attack,
    Attacker,
    new_pod,
)
from tests.install.installs import ADMISSION_POLICIES, IMAGE, wait_until_kinds_are_served

POLICY_KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
TOKEN_REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}


def installed_objects() -> tuple[list[JsonObject], list[JsonObject]]:
    """What an attacker meets of an install, and its policies. Nothing of it runs."""
    objects = manifests(IMAGE | ADMISSION_POLICIES, OWN)
    policies = [each for each in objects if each["kind"] in POLICY_KINDS]
    others = [each for each in objects if each not in policies and each["kind"] != "Deployment"]
    return others, policies


@contextmanager
def applied(cluster: TestCluster, objects: list[JsonObject]) -> Iterator[None]:
    text = "\n---\n".join(map(json.dumps, objects))
    cluster.kubectl("apply", "--validate=strict", "-f", "-", input=text)
    try:
        yield
    finally:
        cluster.kubectl("delete", "--wait", "--timeout=300s", "-f", "-", input=text)


@pytest.fixture(scope="module")
def attacker(audited: TestCluster) -> Iterator[Attacker]:
    others, _ = installed_objects()
    client = audited.client
    with applied(audited, others):
        wait_until_kinds_are_served(audited)
        apply(audited, namespace(ALLOWED))
        for name in (ALLOWED, EXCLUDED, OWN):
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            wait_until(partial(client.exists, account), what="pods can be created")
        path = f"/api/v1/namespaces/{OWN}/serviceaccounts/rescheduler/token"
        yield Attacker(audited, client.create(path, TOKEN_REQUEST)["status"]["token"])
        remove_victims(audited)


def remove_victims(cluster: TestCluster) -> None:
    """Leave the cluster as it was; what is in our own namespace goes with it."""
    client = cluster.client
    for collection in ("/api/v1/nodes", f"/api/v1/namespaces/{EXCLUDED}/pods"):
        for found in client.get(collection)["items"]:
            client.delete(f"{collection}/{found['metadata']['name']}")
    path = f"/api/v1/namespaces/{ALLOWED}"
    client.delete(path)
    wait_until(lambda: not client.exists(path), what="the namespace is gone")


@contextmanager
def guarded(attacker: Attacker) -> Iterator[None]:
    """With the policies in force, while the block runs."""
    _, policies = installed_objects()
    examples = {policy: attack for attack, policy in ATTACKS.items()}
    assert len(examples) * 2 == len(policies), "there is an attack for every policy"
    with applied(attacker.cluster, policies):
        for attack in examples.values():
            wait_until(partial(refusal, attacker, attack), what="the policies are in force")
        yield
    for attack in examples.values():
        wait_until(partial(succeeds, attacker, attack), what="they are no longer in force")


def refusal(attacker: Attacker, attack: Attack) -> str:
    """The policy that refuses an attack, and why; empty if the attack succeeds."""
    if attacker.admin.get(WEBHOOKS).get("webhooks"):
        # An earlier attack may have it ask a server that does not exist.
        attacker.admin.patch(WEBHOOKS, {"webhooks": None})
    try:
        attack(attacker)
    except ApiError as error:
        return str(error)
    return ""


def succeeds(attacker: Attacker, attack: Attack) -> bool:
    return not refusal(attacker, attack)


def policy_of(refused: str) -> str:
    found = re.search(r"ValidatingAdmissionPolicy 'rescheduler-([\w-]+)'", refused)
    return found[1] if found else refused


def test_without_policies_every_attack_succeeds(attacker: Attacker) -> None:
    refused = {attack.__name__: refusal(attacker, attack) for attack in ATTACKS}
    assert {name: why for name, why in refused.items() if why} == {}


def test_with_policies_every_attack_is_refused_and_told_why(attacker: Attacker) -> None:
    with guarded(attacker):
        refused = {attack: refusal(attacker, attack) for attack in ATTACKS}
    others = {
        attack.__name__: (policy_of(why), expected)
        for (attack, expected), why in zip(ATTACKS.items(), refused.values(), strict=True)
        if policy_of(why) != expected
    }
    assert others == {}
    for why in refused.values():
        assert "the rescheduler" in why.rpartition("denied request: ")[2]


def test_the_types_in_the_policies_are_right(attacker: Attacker) -> None:
    """The API server checks the expressions against the schemas of what they are about."""
    _, policies = installed_objects()
    paths = [
        f"/apis/{each['apiVersion']}/validatingadmissionpolicies/{each['metadata']['name']}"
        for each in policies
        if each["kind"] == POLICY_KINDS[0]
    ]
    client = attacker.admin
    with guarded(attacker):
        wait_until(
            lambda: all("typeChecking" in client.get(path).get("status", {}) for path in paths),
            what="all are checked",
        )
        warnings = {path: client.get(path)["status"]["typeChecking"] for path in paths}
    assert {path: found for path, found in warnings.items() if found} == {}


def test_what_the_policies_leave_open(attacker: Attacker) -> None:
    """A pod of any image and any account, in a namespace that is not excluded."""
    with guarded(attacker):
        body = new_pod(containers=[{"name": "app", "image": "evil"}])
        path = f"/api/v1/namespaces/{ALLOWED}/pods"
        name = attacker.thief.create(path, body)["metadata"]["name"]
        attacker.thief.patch(f"{path}/{name}", {"spec": {"schedulingGates": None}})
        assert "schedulingGates" not in attacker.admin.get(f"{path}/{name}")["spec"]


def test_others_are_not_held_to_the_policies(attacker: Attacker) -> None:
    with guarded(attacker):
        path = attacker.pod()
        attacker.admin.patch(path, {"metadata": {"labels": {"app": None}}})
        attacker.admin.delete(path)
