"""What is judged without asking the API server."""

import base64
import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rescheduler.controller.leader_election.lease_object import (
    LeaseSpec,
    micro_time,
    new_lease,
)
from rescheduler.doctor.findings import Health
from rescheduler.doctor.installation import Installation
from rescheduler.doctor.lease_check import lease_finding
from rescheduler.doctor.rights_check import needed_roles
from rescheduler.doctor.webhook_check import (
    Registration,
    Webhook,
    certificate_finding,
    registration_finding,
)
from rescheduler.extender.tls.certificates import new_authority

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("holder", "seconds_ago", "health"),
    [("", 0, Health.BAD), ("a", 3, Health.GOOD), ("a", 29, Health.GOOD), ("a", 31, Health.BAD)],
)
def test_a_lease_is_held_until_it_was_not_renewed_for_twice_its_time(
    holder: str, seconds_ago: int, health: Health
) -> None:
    spec = LeaseSpec(holder, 15, renew_time=micro_time(NOW - timedelta(seconds=seconds_ago)))
    assert lease_finding("leader", spec, NOW).health == health


def test_a_new_lease_that_no_replica_takes_is_bad() -> None:
    new = json.loads(json.dumps(new_lease("a/b", 15, NOW)["spec"]))
    spec = msgspec.convert(new, LeaseSpec)
    assert lease_finding("leader", spec, NOW).health == Health.DOUBTFUL
    finding = lease_finding("leader", spec, NOW + timedelta(minutes=1))
    assert (finding.health, finding.detail) == (Health.BAD, "nobody leads, so nothing is done")


def test_a_holder_whose_clock_is_ahead_leads_all_the_same() -> None:
    spec = LeaseSpec("a", 15, renew_time=micro_time(NOW + timedelta(minutes=5)))
    finding = lease_finding("leader", spec, NOW)
    assert finding.health == Health.GOOD
    assert finding.detail == "a, renewed 0 s ago"


@pytest.mark.parametrize(
    ("days", "health"),
    [(100, Health.GOOD), (3640, Health.DOUBTFUL), (3651, Health.BAD)],
)
def test_a_certificate_is_doubtful_in_its_last_two_weeks_and_bad_after_them(
    days: int, health: Health
) -> None:
    certificate = base64.b64encode(new_authority(NOW).certificate).decode()
    finding = certificate_finding({"tls.crt": certificate}, NOW + timedelta(days=days), "logs")
    assert finding.health == health


@pytest.mark.parametrize("data", [{}, {"tls.crt": ""}, {"tls.crt": "!"}, {"tls.crt": "aGVsbG8="}])
def test_a_certificate_that_is_not_there_or_no_certificate_is_bad(data: dict[str, str]) -> None:
    assert certificate_finding(data, NOW, "logs").health == Health.BAD


def test_a_webhook_without_an_authority_is_bad_and_names_who_writes_it() -> None:
    finding = registration_finding(Registration((Webhook(),)), NOW)
    assert finding.health == Health.BAD
    assert "cainjector" in finding.todo


@pytest.mark.parametrize(
    ("arguments", "needs"),
    [
        (("run", "--dry-run"), {""}),
        (("run",), {"", "moves"}),
        (("run", "--serve=:8443", "--certificates=/tls"), {"", "moves", "extender"}),
        (
            ("run", "--serve=:8443", "--certificates-secret=a/b"),
            {"", "moves", "extender", "ownCertificates"},
        ),
    ],
)
def test_only_the_rights_of_what_is_turned_on_are_needed(
    arguments: tuple[str, ...], needs: set[str]
) -> None:
    installation = Installation("here", 1, 1, arguments, "system:serviceaccount:here:it")
    assert {role.needs for role in needed_roles(installation.switches)} == needs
