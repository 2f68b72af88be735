"""All commands, in the order in which `rescheduler --help` lists them."""

import os
from typing import Annotated

import typer

from rescheduler.cli.commands.completion import completion
from rescheduler.cli.commands.crds import crds
from rescheduler.cli.commands.doctor import doctor
from rescheduler.cli.commands.drain import drain
from rescheduler.cli.commands.explain import explain
from rescheduler.cli.commands.history import history
from rescheduler.cli.commands.manifests import manifests
from rescheduler.cli.commands.move import move
from rescheduler.cli.commands.plan import plan
from rescheduler.cli.commands.run import run
from rescheduler.cli.commands.serve import serve
from rescheduler.cli.commands.simulate import simulate
from rescheduler.cli.commands.snapshot import snapshot
from rescheduler.cli.commands.status import status
from rescheduler.cli.completion import COMPLETION_VARIABLE

application = typer.Typer(
    help="Move running Kubernetes pods to better nodes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    # The boxes that rich draws would double the time that help takes to appear.
    rich_markup_mode=None,
)

application.command()(plan)
application.command()(explain)
application.command()(snapshot)
application.command()(run)
application.command()(serve)
application.command()(move)
application.command()(drain)
application.command()(status)
application.command()(history)
application.command()(manifests)
application.command()(doctor)
application.command()(crds)
application.command()(simulate)
application.command()(completion)

if COMPLETION_VARIABLE in os.environ:
    # With `add_completion`, typer would do this itself, and add two options to every help page.
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()


def print_version(is_given: bool) -> None:
    """Print the version and exit."""
    if is_given:
        from importlib.metadata import version

        typer.echo(version("kube-rescheduler"))
        raise typer.Exit


@application.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options that come before the command."""
