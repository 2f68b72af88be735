"""What is installed in a namespace, as its Deployment says."""

from dataclasses import dataclass

from rescheduler.errors import NotFound
from rescheduler.kube.api_server import ApiServer
from rescheduler.model.objects import Part


class InstalledContainer(Part, frozen=True):
    """A container of the Deployment's template."""

    args: tuple[str, ...] = ()


class InstalledPodSpec(Part, frozen=True):
    """The part of a pod template that says how the program is started, and as whom."""

    containers: tuple[InstalledContainer, ...] = ()
    service_account_name: str = "default"


class InstalledTemplate(Part, frozen=True):
    """The pod template."""

    spec: InstalledPodSpec = InstalledPodSpec()


class InstalledDeploymentSpec(Part, frozen=True):
    """What is wanted."""

    replicas: int = 1
    template: InstalledTemplate = InstalledTemplate()


class InstalledDeploymentStatus(Part, frozen=True):
    """What there is."""

    ready_replicas: int = 0


class InstalledDeployment(Part, frozen=True):
    """A Deployment of ours, with what it starts."""

    spec: InstalledDeploymentSpec = InstalledDeploymentSpec()
    status: InstalledDeploymentStatus = InstalledDeploymentStatus()


@dataclass(frozen=True)
class Installation:
    """A Deployment of ours in a namespace."""

    namespace: str
    replicas: int
    ready: int
    arguments: tuple[str, ...]
    account: str
    """The user that its pods are to the API server."""

    @property
    def switches(self) -> set[str]:
        """The parts of it that are turned on, by the names that roles use."""
        if "--dry-run" in self.arguments:
            return set()
        serves = any(argument.startswith("--serve") for argument in self.arguments)
        if not serves:
            return {"moves"}
        return {"moves", "extender", *(["ownCertificates"] if self.issues_certificates else [])}

    @property
    def issues_certificates(self) -> bool:
        """Whether it issues its certificates itself. Otherwise cert-manager does."""
        return any(argument.startswith("--certificates-secret") for argument in self.arguments)


async def find_installation(server: ApiServer, namespace: str, name: str) -> Installation | None:
    """The Deployment of this name; None if there is none."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    try:
        found = await server.get(path, InstalledDeployment)
    except NotFound:
        return None
    pods = found.spec.template.spec
    return Installation(
        namespace=namespace,
        replicas=found.spec.replicas,
        ready=found.status.ready_replicas,
        arguments=tuple(argument for container in pods.containers for argument in container.args),
        account=f"system:serviceaccount:{namespace}:{pods.service_account_name}",
    )
