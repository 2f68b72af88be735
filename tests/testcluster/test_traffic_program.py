"""The load generator reports what failed and why, and the web server ends as it was told to."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from testcluster.build import ensure_program, traffic_program
from testcluster.cluster import is_listening
from testcluster.ports import pick_ports
from testcluster.realnodes.load import Load, LoadReport, write_addresses
from testcluster.waiting import wait_until

pytestmark = pytest.mark.usefixtures("binary")
Serve = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="module")
def traffic() -> Path:
    return ensure_program(traffic_program())


@pytest.fixture
def serve(traffic: Path) -> Iterator[Serve]:
    """Start web servers on these ports, which end with the test."""
    started = []

    def start(*ports: int, options: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        listed = ",".join(map(str, ports))
        address = ("-host", "127.0.0.1", "-ports", listed)
        server = subprocess.Popen([str(traffic), "serve", *address, *options])
        started.append(server)
        wait_until(lambda: all(map(is_listening, ports)), what="the server listens")
        return server

    yield start
    for server in started:
        server.kill()
        server.wait()


def start_load(traffic: Path, *options: str) -> Load:
    return Load([str(traffic), "load", "-with-owner", *options])


def load(traffic: Path, *options: str) -> LoadReport:
    return start_load(traffic, *options).report()


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/"


def test_every_request_is_counted(traffic: Path, serve: Serve) -> None:
    first, second, closed = pick_ports(3)
    serve(first, second)
    urls = ",".join(url(port) for port in (first, second, closed))
    report = load(traffic, "-urls", urls, "-rate", "60", "-for", "1s")
    assert (report.sent, report.ok, report.failed) == (60, 40, 20)
    assert report.kinds == {"connection refused": 20}
    assert {failure["url"] for failure in report.failures} == {url(closed)}
    assert all(failure["at"] and failure["error"] for failure in report.failures)
    assert sum(report.answers_by_host.values()) == 40
    assert report.latency_milliseconds["p50"] <= report.latency_milliseconds["max"]


def test_a_request_that_takes_longer_than_the_timeout_has_failed(
    traffic: Path, serve: Serve
) -> None:
    (port,) = pick_ports(1)
    serve(port, options=("-work", "1h"))
    report = load(traffic, "-urls", url(port), "-rate", "5", "-for", "1s", "-timeout", "100ms")
    assert report.kinds == {"timeout": 5}


@pytest.mark.parametrize(
    ("options", "lost"),
    [
        (("-work", "2s"), 0),
        # Its request is still being answered, however busy the machine is.
        (("-work", "60s", "-abrupt"), 1),
    ],
)
def test_a_graceful_server_ends_its_requests_and_an_abrupt_one_does_not(
    traffic: Path, serve: Serve, options: tuple[str, ...], lost: int
) -> None:
    (port,) = pick_ports(1)
    server = serve(port, options=options)
    one = ("-rate", "1", "-for", "1s", "-timeout", "120s")
    running = start_load(traffic, "-urls", url(port), *one)
    wait_until(lambda: has_client(server, port), what="the request has arrived")
    server.send_signal(signal.SIGTERM)
    assert running.report().failed == lost
    assert server.wait() == 0


def has_client(server: "subprocess.Popen[bytes]", port: int) -> bool:
    """Whether the server has accepted a client on the port that has not left."""
    sockets = psutil.Process(server.pid).net_connections()
    return any(s.status == psutil.CONN_ESTABLISHED and s.laddr.port == port for s in sockets)


def test_load_follows_addresses_that_change(traffic: Path, serve: Serve, tmp_path: Path) -> None:
    first, second = pick_ports(2)
    old, new = serve(first), serve(second)
    addresses = tmp_path / "addresses"
    write_addresses(addresses, [url(first)])
    options = ("-addresses", str(addresses), "-rate", "50", "-for", "1h", "-keep-alive")
    with start_load(traffic, *options) as running:
        wait_until(lambda: has_client(old, first), what="the first address is asked")
        write_addresses(addresses, [url(second)])
        wait_until(lambda: has_client(new, second), what="the other address is asked")
        report = running.stop()
    assert report.sent == report.ok > 1


def test_load_ends_with_its_owner(traffic: Path, serve: Serve) -> None:
    (port,) = pick_ports(1)
    serve(port)
    running = start_load(traffic, "-urls", url(port), "-for", "1h")
    assert running.process.stdin is not None
    running.process.stdin.close()
    assert running.process.wait() == 1
    assert running.process.stdout is not None
    running.process.stdout.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give either -urls or -addresses"),
        (("-urls", "http://a/", "-rate", "0"), "-rate 0: expected more than 0"),
    ],
)
def test_wrong_options_are_explained(traffic: Path, options: tuple[str, ...], message: str) -> None:
    done = subprocess.run([traffic, "load", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"traffic load: {message}\n"
