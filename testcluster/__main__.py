"""`python -m testcluster build` and `python -m testcluster run`."""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from testcluster.build import ensure_binary
from testcluster.cache import report
from testcluster.cluster import ClusterError, TestCluster
from testcluster.example import fill_with_example
from testcluster.toolchain import BuildError


def main() -> int:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m testcluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the binary if needed, and print its path")
    run = commands.add_parser("run", help="start a cluster with unevenly loaded example nodes")
    run.add_argument("--empty", action="store_true", help="start it without the example")
    kubectl = commands.add_parser("kubectl", help="run kubectl on the cluster of KUBECONFIG")
    kubectl.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        if options.command == "build":
            print(ensure_binary())
        elif options.command == "kubectl":
            return subprocess.call([ensure_binary(), "kubectl", *options.arguments])
        else:
            run_until_stopped(with_example=not options.empty)
    except (BuildError, ClusterError) as error:
        report(f"error: {error}")
        return 1
    return 0


def run_until_stopped(with_example: bool) -> None:
    """Start a cluster and stop it on Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, interrupt)
    try:
        with TestCluster() as cluster:
            if with_example:
                report("Creating unevenly loaded example nodes ...")
                fill_with_example(cluster)
            print(instructions(cluster, write_kubectl(cluster)), flush=True)
            signal.pause()
    except KeyboardInterrupt:
        report("\nThe cluster was stopped.")


def interrupt(signal_number: int, frame: FrameType | None) -> None:
    """Stop as on Ctrl-C."""
    raise KeyboardInterrupt


def write_kubectl(cluster: TestCluster) -> Path:
    """A script that runs kubectl, for as long as the cluster runs."""
    directory = cluster.layout.directory / "bin"
    directory.mkdir()
    script = directory / "kubectl"
    cache = cluster.kubectl_env["KUBECACHEDIR"]
    script.write_text(
        "#!/bin/sh\n"
        f"export KUBECACHEDIR='{cache}' KUBECONFIG=\"${{KUBECONFIG:-{cluster.kubeconfig}}}\"\n"
        f"exec '{cluster.binary}' kubectl \"$@\"\n"
    )
    script.chmod(0o755)
    return script


def instructions(cluster: TestCluster, kubectl: Path) -> str:
    """The commands to type in another terminal."""
    # In the same directory as this Python, if the package is installed there.
    rescheduler = Path(sys.executable).with_name("rescheduler")
    command = os.path.relpath(rescheduler) if rescheduler.exists() else "rescheduler"
    return f"""
A Kubernetes cluster is running at {cluster.server}. In another terminal:

  export KUBECONFIG={cluster.kubeconfig}
  export PATH="{kubectl.parent}:$PATH"
  kubectl get pods --all-namespaces --output wide
  {command} plan

Ctrl-C stops it and removes everything."""


if __name__ == "__main__":
    sys.exit(main())
