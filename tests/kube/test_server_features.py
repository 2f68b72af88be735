"""The version of an API server, and what it means for moves."""

import pytest

from rescheduler.kube.client import Client
from rescheduler.kube.server_features import (
    PLACING_VERSION,
    ServerFeatures,
    ServerVersion,
    VersionAnswer,
    read_server_features,
)
from testcluster.build import servers_program
from tests.kube.faultproxy import FaultProxy, answer_with, is_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.36.3", (1, 36)),
        ("v1.34.2-gke.100", (1, 34)),
        ("v1.29.8-eks-a737599", (1, 29)),
        ("v1.33.5+k3s1", (1, 33)),
        ("v1.37.0-alpha.1.12+0123456789abcd", (1, 37)),
        ("1.36+", (1, 36)),
        ("1.9", (1, 9)),
        (" v1.30.0\n", (1, 30)),
    ],
)
def test_versions_are_read_as_distributions_write_them(text: str, version: tuple[int, int]) -> None:
    assert ServerVersion.parse(text) == version


@pytest.mark.parametrize("text", ["", "v0.0.0-master+$Format:%H$", "latest", "v1", ".", "1.+"])
def test_a_text_without_a_version_has_none(text: str) -> None:
    assert ServerVersion.parse(text) is None


def test_versions_are_compared_as_numbers() -> None:
    assert ServerVersion(1, 9) < ServerVersion(1, 27) < ServerVersion(1, 100) < ServerVersion(2, 0)


def test_a_version_is_taken_from_the_fields_that_are_there() -> None:
    assert VersionAnswer("v1.34.2-gke.100", "1", "34+").version == (1, 34)
    assert VersionAnswer("", "1", "36+").version == (1, 36)
    assert VersionAnswer("v0.0.0-master+$Format:%H$", "", "").version is None


def test_pods_can_be_placed_from_1_27_on() -> None:
    assert ServerFeatures(ServerVersion(1, 26)).placing_blocker == (
        "the API server is 1.26, placing a pod on a chosen node needs 1.27"
    )
    assert not ServerFeatures(ServerVersion(1, 26)).can_place_pods
    assert ServerFeatures(PLACING_VERSION).can_place_pods
    assert ServerFeatures(PLACING_VERSION).placing_blocker is None


async def test_the_real_server_says_its_version(client: Client) -> None:
    features = await read_server_features(client)
    assert servers_program().version.startswith(f"v{features.version}.")
    assert features.can_place_pods


async def test_an_old_server_cannot_place_pods(proxied: Client, proxy: FaultProxy) -> None:
    proxy.next(is_version, answer_with(200, '{"major":"1","minor":"26+","gitVersion":"v1.26.15"}'))
    features = await read_server_features(proxied)
    assert features.version == (1, 26)
    assert not features.can_place_pods


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (403, '{"kind":"Status","code":403,"reason":"Forbidden","message":"forbidden"}'),
        (404, "404 page not found"),
        (200, "<html>not JSON</html>"),
    ],
)
async def test_a_server_that_hides_its_version_is_taken_for_a_new_one(
    proxied: Client,
    proxy: FaultProxy,
    caplog: pytest.LogCaptureFixture,
    status: int,
    body: str,
) -> None:
    proxy.next(is_version, answer_with(status, body))
    features = await read_server_features(proxied)
    assert features.version is None
    assert features.can_place_pods
    assert "Failed to read the version of the API server" in caplog.messages
