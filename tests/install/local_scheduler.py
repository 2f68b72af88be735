"""The second scheduler of a rendered installation, run as a process of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from testcluster import TestCluster
from testcluster.components import serving
from testcluster.processes import Component
from tests.install.local_pod import LocalPod, Rendered


@contextmanager
def local_scheduler(
    cluster: TestCluster, rendered: Rendered, controller: LocalPod, directory: Path
) -> Iterator[LocalPod]:
    """kube-scheduler with the shipped configuration, while the block runs.

    It reaches the extender at the port of the local controller, and schedules nothing
    without it. It is its own service account.
    """
    pod = LocalPod(cluster, rendered, "rescheduler-scheduler", directory)
    pod.write_mounts()
    program, *arguments = pod.arguments(pod.container["command"])
    assert program == "kube-scheduler"
    shipped = pod.mount("config") / "scheduler-configuration.yaml"
    configuration = yaml.safe_load(shipped.read_text())
    kubeconfig = str(pod.write_kubeconfig())
    configuration["clientConnection"] = {"kubeconfig": kubeconfig}
    (extender,) = configuration["extenders"]
    assert extender["urlPrefix"] == "https://rescheduler:443/extender"
    extender["urlPrefix"] = f"https://localhost:{controller.port}/extender"
    extender["ignorable"] = False
    files = extender["tlsConfig"].values()
    paths = pod.arguments(files)
    extender["tlsConfig"] = dict(zip(extender["tlsConfig"], paths, strict=True))
    changed = directory / "configuration.yaml"
    changed.write_text(yaml.safe_dump(configuration))
    arguments = [each.replace(str(shipped), str(changed)) for each in arguments]
    # A pod finds both by itself.
    accounts = [f"--{who}-kubeconfig={kubeconfig}" for who in ("authentication", "authorization")]
    options = [*arguments, *accounts, *serving(cluster.layout, pod.port)]
    scheduler = Component(program, cluster.servers, options, directory / "log", {})
    scheduler.start()
    try:
        yield pod
    finally:
        scheduler.stop()
