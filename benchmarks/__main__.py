"""Run the benchmarks: all of them, or those named on the command line."""

import argparse
import subprocess
import sys

import msgspec

from benchmarks.figures import Figure, table

BENCHMARKS = {
    "reading": "read 150,000 pods through the client, from a local server that replays pages",
    "moved_pods": "keep 20,000 pods that were moved, in the memory of as many that were not",
    "real_cluster": "read 1,000 nodes and 30,000 pods from a real API server",
    "feasibility": "check 5,000 templates on 5,000 nodes with 150,000 pods",
    "planning": "plan for 5,000 nodes and 150,000 pods, and for 1,000 and 30,000",
    "pending_pods": "judge 10,000 pending pods beside 5,000 nodes and 150,000 pods",
    "planning_growth": "plan for 500 to 5,000 nodes",
    "planning_memory": "read 150,000 pods and plan for them, in as little memory as possible",
    "planning_timeout": "plan for 5,000 nodes without a limit on moves, and keep planningTimeout",
    "planning_quality": "pack 5,000 and 9,200 pods onto fewer nodes, and defragment 2,000 nodes",
    "extender": "answer kube-scheduler about 5,000 nodes, and schedule pods with a real one",
    "node_name_lists": "answer filter and prioritize about 500 and 5,000 node names, without HTTP",
    "simulation": "simulate a day of 1,000 nodes and 20,000 pods, alone and with the rescheduler",
    "scheduling": "schedule pods in memory on 1,000 nodes with 20,000 pods",
    "traffic": "drain a real node under 300 requests a second, beside kubectl drain",
    "controller": "run the controller for ten minutes on 1,000 nodes and 30,000 pods that change",
    "monitoring_flood": "move 50 pods while 3,000 connections ask the same controller for metrics",
    "migrations": "move 200 pods by handoff, 20 at a time, on a real control plane",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"any of: {', '.join(BENCHMARKS)}")
    names = parser.parse_args().names or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    figures: list[Figure] = []
    for name in names:
        print(f"... {BENCHMARKS[name]}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        finished = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        figures += msgspec.json.decode(finished.stdout, type=list[Figure])
    print(table(figures))
    print(msgspec.json.encode(figures).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
