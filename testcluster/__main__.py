"""`python -m testcluster build` and `python -m testcluster run`."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from testcluster.build import (
    announce,
    control_plane_program,
    ensure_binary,
    ensure_program,
    helm_program,
    node_program,
    servers_program,
    traffic_program,
)
from testcluster.cache import report
from testcluster.cluster import ClusterError, TestCluster
from testcluster.example import fill_with_example
from testcluster.prometheus import ensure_prometheus
from testcluster.realnodes.addresses import MAX_NODES
from testcluster.realnodes.example import Example, fill_real_nodes
from testcluster.realnodes.requirements import missing_requirement
from testcluster.toolchain import BuildError


def main() -> int:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m testcluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the binaries if needed, print their paths")
    run = commands.add_parser("run", help="start a cluster with unevenly loaded example nodes")
    run.add_argument("--empty", action="store_true", help="start it without the example")
    run.add_argument(
        "--real-nodes",
        type=node_count,
        default=0,
        metavar="COUNT",
        help="run real kubelets where this machine can, on at most "
        f"{MAX_NODES} nodes; the default is simulated nodes",
    )
    kubectl = commands.add_parser("kubectl", help="run kubectl on the cluster of KUBECONFIG")
    kubectl.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        if options.command == "build":
            build_all()
        elif options.command == "kubectl":
            return subprocess.call([ensure_binary(), "kubectl", *options.arguments])
        else:
            run_until_stopped(not options.empty, possible_nodes(options.real_nodes))
    except (BuildError, ClusterError) as error:
        report(f"error: {error}")
        return 1
    return 0


def build_all() -> None:
    """Build what this machine can use, and print the paths: the control plane's is the first."""
    reason = missing_requirement()
    for_nodes = [] if reason else [traffic_program(), node_program()]
    newest, servers = control_plane_program(), servers_program()
    # By default they are the same.
    programs = list(dict.fromkeys([newest, servers, helm_program(), *for_nodes]))
    announce(programs)
    for program in programs:
        print(ensure_program(program), flush=True)
    print(ensure_prometheus().prometheus, flush=True)
    if reason:
        report(f"Kubelet and kube-proxy are not built: {reason}.")


def node_count(text: str) -> int:
    """A number of real nodes."""
    if not text.isdecimal() or int(text) > MAX_NODES:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 0 to {MAX_NODES}")
    return int(text)


def possible_nodes(wanted: int) -> int:
    """How many real nodes to run: those that are wanted, or none where they cannot run."""
    reason = missing_requirement() if wanted else ""
    if reason:
        report(f"Nodes are simulated by kwok: {reason}.")
    return 0 if reason else wanted


def run_until_stopped(with_example: bool, real_nodes: int) -> None:
    """Start a cluster and stop it on Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, interrupt)
    try:
        with TestCluster(real_nodes=real_nodes) as cluster:
            example = fill(cluster) if with_example else None
            directory = cluster.layout.directory / "bin"
            directory.mkdir()
            write_kubectl(cluster, directory)
            if example:
                write_load(cluster, directory, example)
            print(instructions(cluster, directory, example), flush=True)
            signal.pause()
    except KeyboardInterrupt:
        report("\nThe cluster was stopped.")


def interrupt(signal_number: int, frame: FrameType | None) -> None:
    """Stop as on Ctrl-C."""
    raise KeyboardInterrupt


def fill(cluster: TestCluster) -> Example | None:
    """Create the example that suits the nodes; on real ones, there is something to send load to."""
    if cluster.real_node_count:
        report("Starting an example on the first node, and none on the others ...")
        return fill_real_nodes(cluster)
    report("Creating unevenly loaded example nodes ...")
    fill_with_example(cluster)
    return None


def write_kubectl(cluster: TestCluster, directory: Path) -> None:
    """Write a script that runs kubectl, for as long as the cluster runs."""
    cache = cluster.kubectl_env["KUBECACHEDIR"]
    write_script(
        directory / "kubectl",
        f"export KUBECACHEDIR='{cache}' KUBECONFIG=\"${{KUBECONFIG:-{cluster.kubeconfig}}}\"\n"
        f"exec '{cluster.binary}' kubectl \"$@\"\n",
    )


def write_load(cluster: TestCluster, directory: Path, example: Example) -> None:
    """Write a script that sends requests to the example, from the last node, until that ends."""
    nodes = cluster.nodes
    load = (nodes.traffic_binary, "load", "-urls", example.url)
    command = shlex.join(nodes.command_of(nodes.names[-1], *load))
    write_script(directory / "load", f'exec {command} "$@"\n')


def write_script(file: Path, text: str) -> None:
    """Write a shell script that can be run by its name."""
    file.write_text(f"#!/bin/sh\n{text}")
    file.chmod(0o755)


def instructions(cluster: TestCluster, scripts: Path, example: Example | None) -> str:
    """The commands to type in another terminal."""
    # In the same directory as this Python, if the package is installed there.
    rescheduler = Path(sys.executable).with_name("rescheduler")
    command = os.path.relpath(rescheduler) if rescheduler.exists() else "rescheduler"
    trial = f"\n{example_instructions(command, example)}\n" if example else ""
    return f"""
A Kubernetes cluster is running at {cluster.server}. In another terminal:

  export KUBECONFIG={cluster.kubeconfig}
  export PATH="{scripts}:$PATH"
  kubectl get pods --all-namespaces --output wide
  {command} plan
{trial}
Ctrl-C stops it and removes everything."""


def example_instructions(command: str, example: Example) -> str:
    """How to see that nobody notices when a node is drained."""
    return f"""\
All replicas of {example.deployment} run on {example.node}, and its budget allows no disruption.
Drain the node while the Service gets 100 requests per second for a minute, and see how many failed:

  load -rate 100 -for 1m > load.json &
  {command} drain {example.node} --wait --here
  kubectl get pods --all-namespaces --output wide
  wait; cut -c -60 load.json"""


if __name__ == "__main__":
    sys.exit(main())
