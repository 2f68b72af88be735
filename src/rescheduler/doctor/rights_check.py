"""Whether an account has every right that the code declares, asked one by one."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rescheduler.doctor.findings import Finding, bad, good
from rescheduler.install.rights import ROLES, Right, RoleDefinition
from rescheduler.kube.api_server import ApiServer
from rescheduler.model.objects import Part

REVIEWS = "/apis/authorization.k8s.io/v1/"
# So many questions at a time: the server answers each from memory.
AT_A_TIME = 10


class ReviewStatus(Part, frozen=True):
    """The answer."""

    allowed: bool = False


class Review(Part, frozen=True):
    """A SubjectAccessReview, as it comes back."""

    status: ReviewStatus = ReviewStatus()


@dataclass(frozen=True)
class Permission:
    """One verb on one resource."""

    verb: str
    group: str
    resource: str
    """With a subresource after a slash."""
    name: str
    namespace: str
    reason: str

    def __str__(self) -> str:
        where = f" in {self.group}" if self.group else ""
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{where}{name}"

    @property
    def attributes(self) -> dict[str, str]:
        """As a review asks for it."""
        resource, _, subresource = self.resource.partition("/")
        return {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "name": self.name,
            "namespace": self.namespace,
        }


def permissions_of(right: Right, namespace: str) -> Iterator[Permission]:
    """A right, verb by verb and object by object."""
    for resource in right.resources:
        for verb in right.verbs:
            for name in right.names or ("",):
                yield Permission(verb, right.group, resource, name, namespace, right.reason)


def needed_permissions(role: RoleDefinition, namespace: str) -> list[Permission]:
    """All that a role must allow."""
    inside = namespace if role.is_namespaced else ""
    return [found for right in role.rights for found in permissions_of(right, inside)]


def needed_roles(switches: set[str]) -> list[RoleDefinition]:
    """The roles of the parts that are turned on."""
    return [role for role in ROLES if not role.needs or role.needs in switches]


async def check_rights(
    server: ApiServer, switches: set[str], namespace: str, account: str
) -> list[Finding]:
    """One finding for each role. Without an account, the rights of whoever asks."""
    findings = []
    for role in needed_roles(switches):
        permissions = needed_permissions(role, namespace)
        slots = asyncio.Semaphore(AT_A_TIME)

        async def is_allowed(permission: Permission, slots: asyncio.Semaphore = slots) -> bool:
            async with slots:
                return await ask(server, permission, account)

        allowed = await asyncio.gather(*map(is_allowed, permissions))
        missing = [
            one for one, is_granted in zip(permissions, allowed, strict=True) if not is_granted
        ]
        findings.append(rights_finding(role, len(permissions), missing, account))
    return findings


async def ask(server: ApiServer, permission: Permission, account: str) -> bool:
    """Whether the account, or we ourselves, have the permission."""
    spec: dict[str, object] = {"resourceAttributes": permission.attributes}
    kind = "SelfSubjectAccessReview"
    if account:
        kind, spec = "SubjectAccessReview", spec | {"user": account, "groups": groups_of(account)}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer = await server.create(f"{REVIEWS}{kind.lower()}s", body)
    return answer.decode(Review).status.allowed


def groups_of(account: str) -> list[str]:
    """The groups that every service account is in; rights may be granted to them, too."""
    namespace = account.split(":")[2]
    return [
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    ]


def rights_finding(
    role: RoleDefinition, count: int, missing: Iterable[Permission], account: str
) -> Finding:
    """Whether a role is complete."""
    subject, lacking = f"rights to {role.title}", list(missing)
    if not lacking:
        return good(subject, f"all {count} granted")
    listed = "; ".join(f"{permission} ({permission.reason})" for permission in lacking)
    whom = account or "your user"
    return bad(
        subject,
        f"{len(lacking)} of {count} missing: {listed}",
        f"grant them to {whom}: apply the role {role.name} and its binding again "
        "(rescheduler manifests prints them)",
    )
