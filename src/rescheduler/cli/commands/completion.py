"""`rescheduler completion`: what a shell needs to complete our commands."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from rescheduler.cli.completion import COMPLETION_VARIABLE


class Shell(StrEnum):
    """The shells that can complete our commands."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="Your shell.", show_default=False)],
) -> None:
    """Print a script that lets your shell complete commands, options, nodes and pods.

    For bash, in ~/.bashrc: source <(rescheduler completion bash)

    For zsh, in ~/.zshrc after compinit: source <(rescheduler completion zsh)

    For fish: rescheduler completion fish > ~/.config/fish/completions/rescheduler.fish
    """
    # Typer has no other way to name the shell, and kubectl's users expect this one.
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(
        prog_name="rescheduler", complete_var=COMPLETION_VARIABLE, shell=shell
    )
    sys.stdout.write(f"{script}\n")
