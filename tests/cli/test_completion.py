"""Shells complete commands, options and names of the live cluster."""

import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rescheduler.cli.completion import live_names
from tests.cli.conftest import Result
from tests.kube.auth.conftest import STDERR, STDIN, pseudo_terminal_as
from tests.kube.auth.support import exec_plugin, exec_user, kubeconfig, write
from tests.migration.support import Sandbox

COMMAND = Path(sys.executable).with_name("rescheduler")
# What bash does when Tab is pressed in the last of the words.
PRESS_TAB = """
source <(rescheduler completion bash)
COMP_LINE=$1
COMP_POINT=${#COMP_LINE}
current=$2
shift 2
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_rescheduler_completion rescheduler "$current"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words: str, kubeconfig: Path | None = None) -> list[str]:
    """What bash suggests for the last word, or for what is behind its last ":" or "="."""
    pieces = [piece for word in words for piece in re.split("([:=]+)", word) if piece or not word]
    current = re.split("[:=]", words[-1])[-1]
    line = " ".join(("rescheduler", *words))
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "--norc", "-c", PRESS_TAB, "bash", line, current, "rescheduler", *pieces],
        env={
            "PATH": f"{COMMAND.parent}:{os.environ['PATH']}",
            "HOME": "/nonexistent",
            **({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {}),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_and_options_are_completed() -> None:
    assert completed("dr") == ["drain"]
    assert "--wait" in completed("drain", "--w")
    assert completed("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize(
    ("shell", "environment"),
    [("zsh", {}), ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})],
)
def test_other_shells_get_what_bash_gets(shell: str, environment: dict[str, str]) -> None:
    """What their scripts run when Tab is pressed."""
    asked = {
        "_RESCHEDULER_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "rescheduler completion z",
    }
    done = subprocess.run(
        [COMMAND], env={**os.environ, **asked, **environment}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "zsh" in done.stdout
    assert "bash" not in done.stdout


def test_nodes_and_pods_of_the_live_cluster_are_completed(sandbox: Sandbox) -> None:
    names = sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    kubeconfig = sandbox.cluster.kubeconfig
    beginning = f"{sandbox.namespace}-"
    assert sorted(completed("drain", beginning, kubeconfig=kubeconfig)) == sorted(names)
    assert completed("move", key, "--to", names[1], kubeconfig=kubeconfig) == [names[1]]
    assert "kube-system/" in completed("move", "kube-", kubeconfig=kubeconfig)
    assert completed("move", sandbox.namespace, kubeconfig=kubeconfig) == [key], "no lone namespace"
    assert completed("explain", f"{sandbox.namespace}/web", kubeconfig=kubeconfig) == [key]
    assert completed("explain", "no?name/web", kubeconfig=kubeconfig) == []
    found = completed("drain", "--kubeconfig", str(kubeconfig), names[0])
    assert found == [names[0]], "the option counts, too"


def test_bash_completes_words_with_colons_and_equals_signs(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    """bash takes these for words of their own, and keeps what is before the last one."""
    file = tmp_path / "kubeconfig"
    before, contexts, only = sandbox.cluster.kubeconfig.read_text().partition("contexts:\n")
    cloud = "arn:aws:eks:eu-west-1:123:cluster"
    both = [only.replace("name: testcluster", f"name: {cloud}/{name}") for name in ("prod", "test")]
    file.write_text(f"{before}{contexts}{''.join(both)}")
    (name,) = sandbox.add_nodes("a")
    found = completed("plan", "--context", "arn:aws:eks:eu-west-1:123:", kubeconfig=file)
    assert found == ["cluster/prod", "cluster/test"]
    assert completed("plan", "--context", f"{cloud}/p", kubeconfig=file) == ["cluster/prod"]
    assert completed("plan", f"--context={cloud}/t", kubeconfig=file) == ["cluster/test"]
    context_option = ("--context", f"{cloud}/test")
    assert completed("drain", *context_option, name, kubeconfig=file) == [name]
    assert completed("drain", f"--kubeconfig={file}", *context_option, name) == [name]
    assert completed("move", *context_option, f"--to={name}", kubeconfig=file) == [name]


def test_names_come_from_every_page_of_a_long_list(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_names, "PAGE_SIZE", 1)
    names = sandbox.add_nodes("a", "b", "c")
    options = {"kubeconfig": str(sandbox.cluster.kubeconfig)}
    assert sorted(live_names.nodes(options, f"{sandbox.namespace}-")) == sorted(names)


def test_contexts_of_the_kubeconfig_are_completed(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "contexts: [{name: blue, context: {}}, {name: black, context: {}}, {name: red}]\n"
    )
    assert completed("plan", "--context", "bl", kubeconfig=kubeconfig) == ["blue", "black"]


def test_a_cluster_that_cannot_be_asked_gives_no_suggestion_and_no_message(tmp_path: Path) -> None:
    assert completed("drain", "x") == []
    broken = tmp_path / "config"
    broken.write_text("]")
    assert completed("drain", "", kubeconfig=broken) == []
    assert completed("plan", "--context", "", kubeconfig=broken) == []


ASK_A_RESOLVER_THAT_NEVER_ANSWERS = """
import socket, sys, threading
from rescheduler.cli import main

def getaddrinfo(*_, **__):
    print("asked the resolver", file=sys.stderr, flush=True)
    threading.Event().wait()

socket.getaddrinfo = getaddrinfo
sys.argv = ["rescheduler"]
sys.exit(main())
"""


def test_a_resolver_that_never_answers_does_not_hold_up_the_shell(tmp_path: Path) -> None:
    """A thread that waits for it cannot be stopped."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "clusters: [{name: a, cluster: {server: 'https://api.example'}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
        "users: [{name: a, user: {token: secret}}]\n"
        "current-context: a\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", ASK_A_RESOLVER_THAT_NEVER_ANSWERS],
        env={
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "_RESCHEDULER_COMPLETE": "complete_zsh",
            "_TYPER_COMPLETE_ARGS": "rescheduler drain x",
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "asked the resolver\n")


@pytest.mark.parametrize("mode", ["IfAvailable", "Always"])
def test_a_plugin_neither_writes_into_the_line_nor_reads_from_it(tmp_path: Path, mode: str) -> None:
    """Standard input and standard error are a terminal, as they are when Tab is pressed."""
    record = tmp_path / "record"
    plugin = exec_plugin(
        tmp_path,
        "print('please log in', file=sys.stderr, flush=True)",
        "spec = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec']",
        "given = [spec['interactive'], sys.stdin.isatty(), sys.stderr.isatty()]",
        f"pathlib.Path({str(record)!r}).write_text(json.dumps(given))",
        "sys.exit(1)",
    )
    config = kubeconfig(
        {"server": "https://127.0.0.1:1"}, exec_user(str(plugin), interactiveMode=mode)
    )
    options = {"kubeconfig": str(write(tmp_path / "config", config))}
    with pseudo_terminal_as(STDIN), pseudo_terminal_as(STDERR) as screen:
        assert live_names.nodes(options, "") == []
        assert select.select([screen], [], [], 0)[0] == [], "nothing was written"
    if mode == "Always":
        assert not record.exists(), "it cannot do without a terminal"
    else:
        assert json.loads(record.read_text()) == [False, False, False]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_the_shell(shell: str, command: Callable[..., Result]) -> None:
    printed = command("completion", shell)
    assert printed.code == 0
    assert f"_RESCHEDULER_COMPLETE=complete_{shell}" in printed.out
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=printed.out, text=True, check=True)
