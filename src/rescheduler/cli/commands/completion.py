"""`rescheduler completion`: what a shell needs to complete our commands."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from rescheduler.cli.completion import COMPLETION_VARIABLE

# Typer's own goes by COMP_WORDS, where ":" and "=" are words: neither was --kubeconfig=FILE one,
# nor a context such as arn:aws:eks:... bash keeps what is before the last of these.
BASH_SCRIPT = f"""
_rescheduler_completion() {{
    local IFS=$'\\n'
    local line="${{COMP_LINE:0:COMP_POINT}}"
    local last=-1 kept="${{line##*[[:space:]]}}"
    # Behind a space, a new word begins: it comes after all that are there.
    [[ -z $kept ]] && last=${{#line}}
    kept="${{kept%"$2"}}"
    [[ $kept == *[:=] ]] || kept=
    [[ $kept == --*=* ]] && kept="${{kept#*=}}"
    COMPREPLY=( $( env COMP_WORDS="$line" COMP_CWORD=$last \\
                   {COMPLETION_VARIABLE}=complete_bash $1 ) )
    COMPREPLY=( "${{COMPREPLY[@]#"$kept"}}" )
    return 0
}}

complete -o default -F _rescheduler_completion rescheduler
""".strip()


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
    if shell == Shell.BASH:
        sys.stdout.write(f"{BASH_SCRIPT}\n")
        return
    # Typer has no other way to name the shell, and kubectl's users expect this one.
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(
        prog_name="rescheduler", complete_var=COMPLETION_VARIABLE, shell=shell
    )
    sys.stdout.write(f"{script}\n")
