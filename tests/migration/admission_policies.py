"""Policies and webhooks by which the API server refuses writes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from testcluster.client import ApiError
from testcluster.waiting import wait_until
from tests.migration.support import Sandbox

VERSION = "admissionregistration.k8s.io/v1"
BASE = f"/apis/{VERSION}"
WORDS = "nobody changes this on a Friday"


@contextmanager
def refused(
    sandbox: Sandbox,
    resource: str,
    probe: Callable[[], Any],
    group: str = "",
    name: str = "",
    unless: str = "false",
) -> Iterator[None]:
    """Let the server refuse updates of a resource in one namespace, or of one object by its name.

    `probe` sends an update, to find out when the policy is in force. `unless` says which are let
    through, in CEL.
    """
    is_other = f"object.metadata.name != '{name}'"
    if not name:
        is_other = f"object.metadata.namespace != '{sandbox.namespace}'"
    spec = {
        "matchConstraints": {"resourceRules": [updates_of(group, resource)]},
        "validations": [{"expression": f"{is_other} || ({unless})", "message": WORDS}],
    }
    policy = f"no-updates-{sandbox.namespace}"
    bound = {"policyName": policy, "validationActions": ["Deny"]}
    for kind, content in (
        ("ValidatingAdmissionPolicy", spec),
        ("ValidatingAdmissionPolicyBinding", bound),
    ):
        create(sandbox, kind, policy, {"spec": content})
    wait_until(lambda: WORDS in answer_to(probe), what="the policy is in force")
    yield
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        sandbox.outside.delete(f"{BASE}/{plural}/{policy}")
    wait_until(lambda: not answer_to(probe), what="the policy is no longer in force")


@contextmanager
def webhook_down(sandbox: Sandbox, resource: str, probe: Callable[[], Any]) -> Iterator[None]:
    """Let the server ask a webhook that does not answer about updates in one namespace."""
    name = f"down.{sandbox.namespace}.test"
    where = {"matchLabels": {"kubernetes.io/metadata.name": sandbox.namespace}}
    webhook = {
        "name": name,
        "clientConfig": {"url": "https://127.0.0.1:1/validate"},
        "rules": [updates_of("", resource)],
        "namespaceSelector": where,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    create(sandbox, "ValidatingWebhookConfiguration", name, {"webhooks": [webhook]})
    wait_until(lambda: "failed calling webhook" in answer_to(probe), what="the webhook is asked")
    yield
    sandbox.outside.delete(f"{BASE}/validatingwebhookconfigurations/{name}")


def create(sandbox: Sandbox, kind: str, name: str, content: dict[str, Any]) -> None:
    plural = "validatingadmissionpolicies" if kind.endswith("Policy") else f"{kind.lower()}s"
    body = {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, **content}
    sandbox.outside.create(f"{BASE}/{plural}", body)


def updates_of(group: str, resource: str) -> dict[str, list[str]]:
    """The rule of a policy or a webhook."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": [resource],
    }


def answer_to(probe: Callable[[], Any]) -> str:
    """The error that the server answers with; empty if it accepts the update."""
    try:
        probe()
    except ApiError as error:
        return str(error)
    return ""
