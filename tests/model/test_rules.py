from typing import Any

import msgspec
import pytest

from rescheduler.model.objects import Deployment, Node, PersistentVolumeClaim, Volume
from rescheduler.model.rules.node_availability import (
    DEFAULT_MAINTENANCE_LABEL,
    NodeLabel,
    is_open_to_users,
    is_ready,
)
from rescheduler.model.rules.surge import allows_surge
from rescheduler.model.rules.volume_sharing import has_single_node_volume
from testcluster.builders import node

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"


def read_node(**options: Any) -> Node:
    return msgspec.convert(node("a", **options), Node)


def test_an_ordinary_node_is_open_to_users() -> None:
    assert is_open_to_users(read_node(), DEFAULT_MAINTENANCE_LABEL)


@pytest.mark.parametrize(
    "options",
    [
        {"unschedulable": True},
        {"labels": {MAINTENANCE: "true"}},
        {"labels": {"node-role.kubernetes.io/control-plane": ""}},
        {"labels": {"node-role.kubernetes.io/master": ""}},
    ],
)
def test_a_node_is_closed_if_cordoned_or_emptied_or_the_control_planes(
    options: dict[str, Any],
) -> None:
    assert not is_open_to_users(read_node(**options), DEFAULT_MAINTENANCE_LABEL)


def test_only_the_value_of_the_maintenance_label_that_the_policy_names_closes_a_node() -> None:
    assert is_open_to_users(read_node(labels={MAINTENANCE: "true"}), NodeLabel("drain=now"))
    assert is_open_to_users(read_node(labels={"drain": "later"}), NodeLabel("drain=now"))
    assert not is_open_to_users(read_node(labels={"drain": "now"}), NodeLabel("drain=now"))


def test_a_node_without_a_true_ready_condition_is_not_ready() -> None:
    assert is_ready(read_node(ready=True))
    assert not is_ready(read_node(ready=False))
    assert not is_ready(msgspec.convert({"metadata": {"name": "a"}}, Node))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({}, True),
        ({"type": "RollingUpdate"}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}, False),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "0%"}}, False),
        ({"type": "Recreate"}, False),
    ],
)
def test_a_deployment_says_by_its_strategy_whether_it_allows_surge(
    strategy: dict[str, Any], expected: bool
) -> None:
    body = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"strategy": strategy}}
    assert allows_surge(msgspec.convert(body, Deployment)) == expected


@pytest.mark.parametrize(
    ("access_modes", "expected"),
    [
        (["ReadWriteOnce"], True),
        (["ReadWriteOncePod"], True),
        (["ReadWriteMany"], False),
        (["ReadOnlyMany"], False),
        (["ReadOnlyMany", "ReadWriteOnce"], True),
    ],
)
def test_a_claim_says_by_its_access_modes_whether_two_nodes_may_mount_it(
    access_modes: list[str], expected: bool
) -> None:
    body = {"metadata": {"name": "data"}, "spec": {"accessModes": access_modes}}
    claim = msgspec.convert(body, PersistentVolumeClaim)
    found = has_single_node_volume(volumes("data"), "shop", {"shop/data": claim}.get)
    assert found == expected


def test_a_claim_that_is_not_known_may_be_for_one_node_only() -> None:
    assert has_single_node_volume(volumes("data"), "shop", lambda key: None)
    assert not has_single_node_volume([], "shop", lambda key: None)


def volumes(claim: str) -> list[Volume]:
    return [msgspec.convert({"name": "v", "persistentVolumeClaim": {"claimName": claim}}, Volume)]
