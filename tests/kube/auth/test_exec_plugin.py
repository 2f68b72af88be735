"""Exec plugins: when they are run, what they are given, and what their answers may be."""

import asyncio
import os
from pathlib import Path

import pytest

from rescheduler.errors import CredentialsError, Forbidden
from rescheduler.kube.auth.loader import load_credentials
from rescheduler.kube.client import Client
from rescheduler.model.kinds import NODE
from testcluster import TestCluster
from tests.kube.auth.conftest import STDERR, WriteConfig, pseudo_terminal_as
from tests.kube.auth.support import (
    PRINT_STATUS,
    V1,
    V1BETA1,
    ask_who,
    calls_of,
    client_certificate,
    exec_plugin,
    exec_user,
    tokens_in_turn,
    who_am_i,
)
from tests.kube.support import QUICK_CLIENT, eventually


async def test_a_plugin_is_run_once_and_again_when_its_token_expires(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path
) -> None:
    expired = {"token": cluster.powerless_token, "expirationTimestamp": "2020-01-01T00:00:00Z"}
    plugin = tokens_in_turn(tmp_path, expired, {"token": cluster.admin_token})
    config = write_config(exec_user(str(plugin)))
    async with Client(load_credentials(config), QUICK_CLIENT) as client:
        assert await ask_who(client) == "powerless"
        assert await ask_who(client) == "admin"
        assert await ask_who(client) == "admin"
    assert calls_of(tmp_path) == 2


async def test_a_plugin_is_run_again_once_when_its_token_is_rejected(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path
) -> None:
    plugin = tokens_in_turn(tmp_path, {"token": "revoked"}, {"token": cluster.admin_token})
    config = write_config(exec_user(f"./{plugin.name}"))
    async with Client(load_credentials(config), QUICK_CLIENT) as client:
        assert await ask_who(client) == "admin"
        assert await ask_who(client) == "admin"
        assert calls_of(tmp_path) == 2
        # A watch is opened in the same way.
        assert await anext(client.watch(NODE, "0", 1)) == ()


async def test_a_plugin_whose_tokens_are_all_rejected_is_not_run_for_ever(
    write_config: WriteConfig, tmp_path: Path
) -> None:
    plugin = tokens_in_turn(tmp_path, {"token": "revoked"}, {"token": "also revoked"})
    with pytest.raises(Forbidden, match="401 Unauthorized"):
        await who_am_i(write_config(exec_user(str(plugin))))
    assert calls_of(tmp_path) == 2


async def test_a_plugin_may_give_a_client_certificate_and_renew_it(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path
) -> None:
    statuses = [
        {
            "clientCertificateData": certificate.decode(),
            "clientKeyData": key.decode(),
            "expirationTimestamp": "2020-01-01T00:00:00Z",
        }
        for certificate, key in (client_certificate(cluster, name) for name in ("one", "two"))
    ]
    config = write_config(exec_user(str(tokens_in_turn(tmp_path, *statuses))))
    async with Client(load_credentials(config), QUICK_CLIENT) as client:
        assert [await ask_who(client), await ask_who(client)] == ["one", "two"]


async def test_a_plugin_gets_its_arguments_and_environment(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path
) -> None:
    plugin = exec_plugin(
        tmp_path,
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'",
        "status = {'token': sys.argv[1] + os.environ['SECOND_HALF']}",
        PRINT_STATUS,
    )
    halves = cluster.admin_token[:8], cluster.admin_token[8:]
    env = [{"name": "SECOND_HALF", "value": halves[1]}]
    assert (
        await who_am_i(write_config(exec_user(str(plugin), args=[halves[0]], env=env))) == "admin"
    )


PLUGIN_FAILURES = {
    "exits": (["sys.exit('please log in')"], "please log in"),
    "no JSON": (["print('hello')"], "expected an ExecCredential as JSON"),
    "another type": (["status = {'token': 17}", PRINT_STATUS], r"Expected `str \| null`.*token"),
    "another kind": (
        ["print(json.dumps({'kind': 'Pod', 'apiVersion': 'v1'}))"],
        "kind 'Pod' in its answer: expected ExecCredential",
    ),
    "another version": (
        [f"print(json.dumps({{'kind': 'ExecCredential', 'apiVersion': '{V1BETA1}'}}))"],
        f"apiVersion '{V1BETA1}' in its answer: expected {V1}",
    ),
    "no status": (
        [f"print(json.dumps({{'kind': 'ExecCredential', 'apiVersion': '{V1}'}}))"],
        "expected a status in its answer",
    ),
    "a time without a zone": (
        ["status = {'token': 'x', 'expirationTimestamp': '2020-01-01T00:00:00'}", PRINT_STATUS],
        "expirationTimestamp",
    ),
    "a token that cannot be sent": (
        ["status = {'token': 'hush\\nhush'}", PRINT_STATUS],
        "token: expected one line of printable characters",
    ),
    "no token": (["status = {}", PRINT_STATUS], "expected a token or a client certificate"),
    "no key": (["status = {'clientCertificateData': 'x'}", PRINT_STATUS], "expected clientKeyData"),
    "no certificate": (
        ["status = {'clientKeyData': 'hush'}", PRINT_STATUS],
        "expected clientCertificateData",
    ),
    "no PEM": (
        ["status = {'clientCertificateData': 'x', 'clientKeyData': 'hush'}", PRINT_STATUS],
        "expected a PEM certificate and its key",
    ),
}


@pytest.mark.parametrize(("lines", "message"), PLUGIN_FAILURES.values(), ids=PLUGIN_FAILURES.keys())
async def test_a_plugin_that_fails_is_named(
    write_config: WriteConfig, tmp_path: Path, lines: list[str], message: str
) -> None:
    config = write_config(exec_user(str(exec_plugin(tmp_path, *lines))))
    with pytest.raises(CredentialsError, match=message) as caught:
        await who_am_i(config)
    assert f"kubeconfig {config}, context 'here': exec plugin '{tmp_path}/plugin'" in str(
        caught.value
    )
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("command", ["no-such-plugin", "./no-such-plugin"])
async def test_a_plugin_that_is_missing_comes_with_its_hint(
    write_config: WriteConfig, command: str
) -> None:
    hint = "Install it with: \x1b[1mbrew\x1b[0m\n"
    config = write_config(exec_user(command, installHint=hint))
    with pytest.raises(CredentialsError, match=r"no-such-plugin': no such program") as caught:
        await who_am_i(config)
    # Nothing in the hint can change the terminal.
    assert str(caught.value).endswith("\nInstall it with: U+001B[1mbrewU+001B[0m")


async def test_a_plugin_that_is_no_program_is_named(
    write_config: WriteConfig, tmp_path: Path
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_bytes(b"\x7fELF is not all that it takes")
    config = write_config(exec_user("./plugin"))
    with pytest.raises(CredentialsError, match="plugin': no such program"):
        await who_am_i(config)
    plugin.chmod(0o700)
    with pytest.raises(CredentialsError, match="plugin': could not be run: Exec format error"):
        await who_am_i(config)


async def test_a_plugin_in_the_current_directory_is_not_found_through_the_path(
    write_config: WriteConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exec_plugin(tmp_path, "sys.exit('should not have been run')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".:")
    with pytest.raises(CredentialsError, match="'plugin': no such program"):
        await who_am_i(write_config(exec_user("plugin")))


async def test_a_plugin_ends_with_the_call_that_waits_for_it(
    write_config: WriteConfig, tmp_path: Path
) -> None:
    plugin = exec_plugin(
        tmp_path,
        "import time",
        f"pathlib.Path({str(tmp_path)!r}, 'unfinished').write_text(str(os.getpid()))",
        f"os.rename({str(tmp_path / 'unfinished')!r}, {str(tmp_path / 'pid')!r})",
        "time.sleep(600)",
    )
    authentication = load_credentials(write_config(exec_user(str(plugin)))).authentication
    waiting = asyncio.create_task(authentication.identity())
    await eventually((tmp_path / "pid").exists, "the plugin runs")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


READ_TOKEN = ("status = {'token': sys.stdin.readline().strip()}", PRINT_STATUS)


@pytest.mark.parametrize("mode", ["IfAvailable", "Always"])
async def test_an_interactive_plugin_reads_from_the_terminal(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path, terminal: int, mode: str
) -> None:
    plugin = exec_plugin(tmp_path, *READ_TOKEN)
    os.write(terminal, f"{cluster.admin_token}\n".encode())
    assert await who_am_i(write_config(exec_user(str(plugin), interactiveMode=mode))) == "admin"


async def test_a_plugin_that_is_not_interactive_gets_nothing_to_read(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path, terminal: int
) -> None:
    plugin = exec_plugin(tmp_path, *READ_TOKEN)
    os.write(terminal, f"{cluster.admin_token}\n".encode())
    with pytest.raises(CredentialsError, match="expected a token or a client certificate"):
        await who_am_i(write_config(exec_user(str(plugin), interactiveMode="Never")))


async def test_a_plugin_that_needs_a_terminal_is_not_run_without_one(
    write_config: WriteConfig, tmp_path: Path, no_terminal: None
) -> None:
    plugin = tokens_in_turn(tmp_path, {"token": "x"})
    with pytest.raises(CredentialsError, match="Always: standard input is not a terminal"):
        await who_am_i(write_config(exec_user(str(plugin), interactiveMode="Always")))
    assert not (tmp_path / "calls").exists()


async def test_a_plugin_that_fails_speaks_to_the_terminal_itself(
    write_config: WriteConfig, tmp_path: Path
) -> None:
    plugin = exec_plugin(tmp_path, "sys.exit('please log in')")
    config = write_config(exec_user(str(plugin)))
    with pseudo_terminal_as(STDERR) as screen:
        with pytest.raises(CredentialsError, match=r"failed with exit code 1$"):
            await who_am_i(config)
        assert b"please log in" in os.read(screen, 1000)
