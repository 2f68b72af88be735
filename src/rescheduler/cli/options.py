"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="How to reach the cluster; otherwise $KUBECONFIG, ~/.kube/config, or the pod's own.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The kubeconfig's context, if not its current one."),
]
SnapshotFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--snapshot",
        "-s",
        metavar="FILE",
        help="The cluster in this file, instead of a live one; - is stdin. "
        "May be given several times.",
    ),
]
PolicyFile = Annotated[
    str | None,
    typer.Option("--policy", "-p", metavar="FILE", help="What to improve, and how far to go."),
]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Follow it until it has finished.")]
Here = Annotated[
    bool,
    typer.Option(
        "--here", help="Carry it out from this process, where no controller runs; implies --wait."
    ),
]
CancelOnInterrupt = Annotated[
    bool,
    typer.Option(
        "--cancel-on-interrupt", help="Let Ctrl-C cancel what was asked for, not only look away."
    ),
]
