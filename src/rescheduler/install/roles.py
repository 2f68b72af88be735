"""Service accounts, roles and bindings, from the rights that the code declares."""

from typing import Any

from rescheduler.install.metadata import CONTROLLER, SCHEDULER, metadata
from rescheduler.install.rights import ROLES, SCHEDULER_ELECTING, RoleDefinition
from rescheduler.install.tree import Comment, Tree, Value, When

RBAC = "rbac.authorization.k8s.io"

SCHEDULER_ROLES = ("system:kube-scheduler", "system:volume-scheduler")
"""Roles that every cluster has, for any kube-scheduler."""


ACCOUNTS: dict[str, Tree] = {CONTROLLER: Value("serviceAccount.name"), SCHEDULER: SCHEDULER}
"""The names of the service accounts, by component."""


def service_account(component: str) -> dict[Any, Tree]:
    """The account that the pods of a component run as. Only pods that ask for it get a token."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(ACCOUNTS[component], component),
        "automountServiceAccountToken": False,
    }


def controller_account() -> dict[Any, Tree]:
    """The account of the controller, which may be told apart in a cloud by its annotations."""
    account = service_account(CONTROLLER)
    account["metadata"]["annotations"] = Value("serviceAccount.annotations")
    return account


def role(definition: RoleDefinition, component: str) -> dict[Any, Tree]:
    """The role, with the reason above each rule."""
    rules: list[Tree] = []
    for right in definition.rights:
        rules += [Comment(right.reason), right.rule]
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role" if definition.is_namespaced else "ClusterRole",
        "metadata": metadata(definition.name, component, is_namespaced=definition.is_namespaced),
        "rules": rules,
    }


def binding(definition: RoleDefinition, component: str) -> dict[Any, Tree]:
    """The binding of a role to the service account of a component."""
    kind = "Role" if definition.is_namespaced else "ClusterRole"
    named = metadata(definition.name, component, is_namespaced=definition.is_namespaced)
    return bound(named, kind, definition.name, component)


def bound(named: dict[Any, Tree], kind: str, role_name: str, component: str) -> dict[Any, Tree]:
    """A binding with this metadata, of a role of this kind and name."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": named,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role_name},
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": ACCOUNTS[component],
                "namespace": Value("namespace"),
            }
        ],
    }


def controller_access() -> list[dict[Any, Tree]]:
    """The account of the controller, and all that it may do."""
    objects: list[dict[Any, Tree]] = [{When("serviceAccount"): [controller_account()]}]
    for definition in ROLES:
        pair = [role(definition, CONTROLLER), binding(definition, CONTROLLER)]
        objects += [{When(definition.needs): pair}] if definition.needs else pair
    return objects


def scheduler_access() -> list[dict[Any, Tree]]:
    """The account of the second scheduler: what every kube-scheduler may do, and its own lease."""
    access = [service_account(SCHEDULER)]
    for name in SCHEDULER_ROLES:
        own_name = f"{SCHEDULER}-{name.removeprefix('system:')}"
        named = metadata(own_name, SCHEDULER, is_namespaced=False)
        access.append(bound(named, "ClusterRole", name, SCHEDULER))
    access += [role(SCHEDULER_ELECTING, SCHEDULER), binding(SCHEDULER_ELECTING, SCHEDULER)]
    return access
