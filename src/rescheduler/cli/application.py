"""All commands together: what `rescheduler --help` shows."""

from typing import Annotated

import typer

from rescheduler.cli.commands.crds import crds
from rescheduler.cli.commands.drain import drain
from rescheduler.cli.commands.explain import explain
from rescheduler.cli.commands.move import move
from rescheduler.cli.commands.plan import plan
from rescheduler.cli.commands.run import run
from rescheduler.cli.commands.serve import serve
from rescheduler.cli.commands.simulate import simulate
from rescheduler.cli.commands.snapshot import snapshot

application = typer.Typer(
    help="Moves running Kubernetes pods to better nodes, without anyone noticing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    # The boxes that rich draws around the help would double the time it takes to appear.
    rich_markup_mode=None,
)

application.command()(plan)
application.command()(explain)
application.command()(snapshot)
application.command()(run)
application.command()(serve)
application.command()(move)
application.command()(drain)
application.command()(crds)
application.command()(simulate)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        from importlib.metadata import version

        typer.echo(version("kube-rescheduler"))
        raise typer.Exit


@application.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options that come before the command."""
