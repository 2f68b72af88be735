"""Options that several commands have, and the options that belong together as one value."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from rescheduler.cli.completion import complete_context
from rescheduler.errors import SettingsError

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Kubeconfig file. Default: $KUBECONFIG, then ~/.kube/config, then the pod's service "
        "account.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Kubeconfig context. Default: the current context.",
        autocompletion=complete_context,
    ),
]
SnapshotFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--snapshot",
        "-s",
        metavar="FILE",
        help="Read the cluster from this file instead of a live cluster; - means stdin. "
        "Can be repeated.",
    ),
]
PolicyFile = Annotated[
    str | None,
    typer.Option(
        "--policy", "-p", metavar="FILE", help="Policy file: the strategies and their limits."
    ),
]
Wait = Annotated[
    bool,
    typer.Option("--wait", "-w", help="Show the progress until all migrations have finished."),
]
Here = Annotated[
    bool,
    typer.Option(
        "--here",
        help="Run the migrations in this process, not in a running controller. Implies --wait.",
    ),
]
CancelOnInterrupt = Annotated[
    bool,
    typer.Option(
        "--cancel-on-interrupt",
        help="On Ctrl-C, cancel the migrations instead of leaving them to the controller.",
    ),
]


@dataclass(frozen=True)
class ClusterAccess:
    """How to reach the live cluster: --kubeconfig and --context."""

    kubeconfig: Path | None
    context: str | None

    @property
    def is_given(self) -> bool:
        """Whether the user gave one of the two options."""
        return self.kubeconfig is not None or bool(self.context)


def seconds_given(option: str, text: str) -> float:
    """The length of a duration that the user gave for an option."""
    from rescheduler.settings.value_types import seconds_of

    try:
        return seconds_of(text)
    except ValueError as error:
        raise SettingsError(f"{option} {text!r}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class FollowOptions:
    """What to do after Migrations are created: --wait, --here and --cancel-on-interrupt."""

    wait: bool
    here: bool
    cancel_on_interrupt: bool

    @property
    def waits(self) -> bool:
        """Whether the command ends only when the Migrations have."""
        return self.wait or self.here
