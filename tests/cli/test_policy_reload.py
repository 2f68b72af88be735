"""A policy file that changes while the program runs."""

import logging
from pathlib import Path

import pytest

from rescheduler.cli.inputs import load_policy
from rescheduler.cli.policies.policy_reload import PolicyReloader
from rescheduler.settings import Policy

WHOLE = "cpuThreshold: 70\nexcludedNamespaces: [payments]\n"
HALF = "cpuThreshold: 70\n"


class Reloading:
    """A policy file, and the policies that were applied from it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.applied: list[Policy] = []
        file.write_text("cpuThreshold: 60")
        self.reloader = PolicyReloader(load_policy(str(file)), self.applied.append)

    def poll(self, requested: bool = False) -> None:
        self.reloader.poll(requested)


@pytest.fixture
def reloading(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Reloading:
    caplog.set_level(logging.INFO)
    return Reloading(tmp_path / "policy.yaml")


def test_a_changed_file_is_applied_once(reloading: Reloading) -> None:
    reloading.file.write_text(WHOLE)
    for _ in range(4):
        reloading.poll()
    (policy,) = reloading.applied
    assert (policy.cpu_threshold, policy.excluded_namespaces) == (70, ("payments",))


def test_a_config_map_that_a_kubelet_updates_is_applied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A kubelet writes a new directory and swaps a link to it; the files are links into it."""
    for version, content in (("1", "cpuThreshold: 60\n"), ("2", WHOLE)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "policy.yaml").write_text(content)
    (tmp_path / "..data").symlink_to("1")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    applied: list[Policy] = []
    reloader = PolicyReloader(load_policy(str(tmp_path / "policy.yaml")), applied.append)
    reloader.poll()
    (tmp_path / "..data_tmp").symlink_to("2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    reloader.poll()
    reloader.poll()
    assert [policy.cpu_threshold for policy in applied] == [70]


def test_a_file_that_is_still_being_written_is_not_applied_in_part(reloading: Reloading) -> None:
    for content in (HALF, WHOLE, WHOLE):
        reloading.file.write_text(content)
        reloading.poll()
    assert [policy.excluded_namespaces for policy in reloading.applied] == [("payments",)]


@pytest.mark.parametrize("content", ["", "\n", "# cpuThreshold: 70\n", "---\n"])
@pytest.mark.parametrize("requested", [False, True])
def test_an_empty_file_keeps_the_last_policy(
    reloading: Reloading, caplog: pytest.LogCaptureFixture, content: str, requested: bool
) -> None:
    reloading.file.write_text(content)
    reloading.poll(requested)
    reloading.poll()
    reloading.poll()
    assert reloading.applied == []
    (record,) = caplog.records
    assert record.message == "Rejected an invalid policy and kept the old one"
    expected = "it is empty, perhaps half-written; write {} for the defaults"
    assert record.__dict__["error"] == f"{reloading.file}: {expected}"


def test_the_defaults_can_be_asked_for(reloading: Reloading) -> None:
    reloading.file.write_text("{}")
    reloading.poll()
    reloading.poll()
    assert reloading.applied == [Policy()]


def test_a_file_is_applied_at_once_if_that_is_requested(reloading: Reloading) -> None:
    reloading.file.write_text(WHOLE)
    reloading.poll(requested=True)
    reloading.poll()
    reloading.poll()
    assert len(reloading.applied) == 1


def test_a_file_that_was_restored_in_time_is_not_applied_again(reloading: Reloading) -> None:
    reloading.file.write_text("")
    reloading.poll()
    reloading.file.write_text("cpuThreshold: 60")
    reloading.poll()
    reloading.poll()
    assert reloading.applied == []
