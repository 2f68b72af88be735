"""The options about serving are checked before anything else happens."""

import pytest

from tests.cli.conftest import command as command  # a fixture
from tests.cli.test_program import Command

FILES = ("--certificates", "tls")
SECRET = ("--certificates-secret", "ops/certificates")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "expected one of --certificates DIR and --certificates-secret"),
        ((*FILES, *SECRET), "expected one of --certificates DIR and --certificates-secret"),
        (("--certificates-secret", "ops"), "--certificates-secret 'ops': expected NAMESPACE/NAME"),
        (("--certificates-secret", "ops/a?b"), "'ops/a?b': expected NAMESPACE/NAME"),
        ((*FILES, "--bind-client", "x"), "--bind-client needs --client-ca FILE"),
        ((*FILES, "--listen", "8443"), "--listen '8443': expected HOST:PORT"),
        ((*FILES, "--listen", "[::1]:x"), "--listen: port 'x': expected a number"),
        ((*FILES, "--name", "us"), "--name needs --certificates-secret"),
        ((*SECRET, "--name", "b\u00fccher"), "certificate for 'b\u00fccher': expected a host name"),
        ((*SECRET, "--name", ""), "certificate for '': expected a host name"),
        ((*FILES, "--webhook-url", "http://us"), "--webhook-url 'http://us': expected a URL"),
        ((*FILES, "--webhook-url", "https://[us"), "--webhook-url 'https://[us': expected a URL"),
        ((*FILES, "--webhook-url", "https://us:99999"), "'https://us:99999': expected a URL"),
        ((*FILES, "--webhook-url", "https://us/?a=b"), "'https://us/?a=b': expected a URL"),
        ((*FILES, "--webhook-url", "https://me@us"), "'https://me@us': expected a URL"),
        ((*FILES, "--webhook-service", "us"), "--webhook-service 'us': expected NAMESPACE/NAME"),
        ((*FILES, "--webhook-service", "a/us:0"), "port '0': expected a number from 1 to 65535"),
        (
            (*FILES, "--webhook-service", "a/us", "--webhook-url", "https://us"),
            "expected at most one of --webhook-service and --webhook-url",
        ),
    ],
)
def test_invalid_options_are_rejected_in_one_line(
    command: Command, arguments: tuple[str, ...], expected: str
) -> None:
    result = command("serve", *arguments)
    assert result.code == 2
    assert expected in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--serve", "8443", *FILES), "--serve '8443': expected HOST:PORT"),
        (FILES, "certificate and webhook options need --serve HOST:PORT"),
        (
            ("--serve", "127.0.0.1:0", "--dry-run", *FILES),
            "--serve cannot be combined with --dry-run",
        ),
    ],
)
def test_run_names_its_own_options(
    command: Command, arguments: tuple[str, ...], expected: str
) -> None:
    result = command("run", *arguments)
    assert result.code == 2
    assert expected in result.err
    assert result.err.count("\n") == 1
