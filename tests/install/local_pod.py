"""The container of a rendered Deployment, run as a process of this machine.

Arguments, environment, mounts and service account are those of the manifest. Three things differ:
mounts are directories elsewhere, ports are those that are free, and the token of the service
account is in a kubeconfig.
"""

import os
import re
import ssl
import subprocess
import sys
import urllib.request
import uuid
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError

from testcluster import TestCluster
from testcluster.client import JsonObject
from testcluster.components import kubeconfig_text
from testcluster.ports import pick_ports
from testcluster.waiting import wait_until
from tests.install.audit_log import AuditLog, Event

READY_SECONDS = 120.0
STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Rendered:
    """The objects of an installation."""

    objects: list[JsonObject]

    def get(self, kind: str, name: str) -> JsonObject:
        (found,) = (
            each
            for each in self.objects
            if (each["kind"], each["metadata"]["name"]) == (kind, name)
        )
        return found

    def of_kind(self, *kinds: str) -> list[JsonObject]:
        return [each for each in self.objects if each["kind"] in kinds]


class LocalPod:
    """A pod of a Deployment."""

    def __init__(
        self, cluster: TestCluster, rendered: Rendered, deployment: str, directory: Path
    ) -> None:
        self._cluster = cluster
        self._rendered = rendered
        self._directory = directory
        found = rendered.get("Deployment", deployment)
        self.namespace: str = found["metadata"]["namespace"]
        self._spec: JsonObject = found["spec"]["template"]["spec"]
        (self.container,) = self._spec["containers"]
        names = [port["name"] for port in self.container["ports"]]
        self.ports = dict(zip(names, pick_ports(len(names)), strict=True))
        self.port = self.ports[names[0]]
        self.user = f"system:serviceaccount:{self.namespace}:{self._spec['serviceAccountName']}"
        directory.mkdir(parents=True)
        self._log = directory / "log"
        self._uid = str(uuid.uuid4())
        self._process: subprocess.Popen[bytes] | None = None
        self._audit_log = AuditLog(cluster)

    # ------------------------------------------------------------ as the manifest says

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the container; those of a field have its value."""
        fields = {"metadata.namespace": self.namespace, "metadata.uid": self._uid}
        return {
            each["name"]: fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in self.container.get("env", [])
        }

    def arguments(self, given: Iterable[str]) -> list[str]:
        """Arguments with variables, paths of mounts and ports replaced."""
        variables = self.environment
        mounts = {
            mount["mountPath"]: str(self._directory / mount["name"])
            for mount in self.container["volumeMounts"]
        }
        ports = {
            f"=:{port['containerPort']}": f"=127.0.0.1:{self.ports[port['name']]}"
            for port in self.container["ports"]
        }
        found = []
        for argument in given:
            argument = re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], argument)
            for path, place in mounts.items():
                argument = re.sub(rf"(^|=){re.escape(path)}(?=/|$)", rf"\1{place}", argument)
            for declared, free in ports.items():
                argument = argument.replace(declared, free)
            found.append(argument)
        return found

    def write_mounts(self) -> None:
        """Write the volumes as a kubelet does: a directory, and a link that is swapped."""
        for volume in self._spec["volumes"]:
            place = self._directory / volume["name"]
            place.mkdir(exist_ok=True)
            number = len(list(place.glob("..version-*")))
            version = place / f"..version-{number}"
            version.mkdir()
            for name, content in self._content(volume).items():
                (version / name).write_bytes(content)
                link = place / name
                if not link.is_symlink():
                    link.symlink_to(f"..data/{name}")
            fresh = place / "..data_tmp"
            fresh.symlink_to(version.name)
            fresh.rename(place / "..data")

    def _content(self, volume: JsonObject) -> dict[str, bytes]:
        """What is in a volume, from the API server."""
        core = f"/api/v1/namespaces/{self.namespace}"
        client = self._cluster.client
        if "configMap" in volume:
            texts = client.get(f"{core}/configmaps/{volume['configMap']['name']}")["data"]
            return {key: text.encode() for key, text in texts.items()}
        source = volume["secret"]
        encoded = client.get(f"{core}/secrets/{source['secretName']}")["data"]
        return {item["path"]: b64decode(encoded[item["key"]]) for item in source["items"]}

    def write_kubeconfig(self) -> Path:
        """A kubeconfig with a token of the service account."""
        account = self._spec["serviceAccountName"]
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        answer = self._cluster.client.create(
            path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        )
        token = answer["status"]["token"]
        file = self._directory / "kubeconfig"
        server, ca_file = self._cluster.server, self._cluster.ca_file
        file.write_text(kubeconfig_text(server, ca_file, account, token))
        return file

    def mount(self, name: str) -> Path:
        """Where a volume is."""
        return self._directory / name

    # ------------------------------------------------------------ running

    def start(self) -> None:
        """Start the process, and wait until its readiness probe succeeds."""
        self.write_mounts()
        environment = {
            **os.environ,
            **self.environment,
            "KUBECONFIG": str(self.write_kubeconfig()),
        }
        program = Path(sys.executable).with_name("rescheduler")
        command = [str(program), *self.arguments(self.container["args"])]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        wait_until(lambda: self.probe("readinessProbe"), READY_SECONDS, "the controller is ready")
        assert self.probe("livenessProbe")

    def probe(self, name: str) -> bool:
        """Whether a probe of the manifest succeeds."""
        assert self._process is not None
        assert self._process.poll() is None, f"it has ended:\n{self.log}"
        get = self.container[name]["httpGet"]
        url = f"{get['scheme'].lower()}://127.0.0.1:{self.ports[get['port']]}{get['path']}"
        # As a kubelet does, which does not check certificates.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(url, context=context) as answer:
                return bool(answer.status == 200)
        except (HTTPError, URLError, OSError):
            return False

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text()

    def requests(self) -> list[Event]:
        """What the audit log has about its requests."""
        return self._audit_log.requests(self.user)

    def stop(self) -> None:
        """Stop it as a kubelet does; it must end by itself."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(STOP_SECONDS)
        assert code == 0, self.log

    def kill(self) -> None:
        """Make sure that it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
