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
        (["ReadOnlyMany", "ReadWriteMany"], False),
        (["ReadWriteEverywhere"], True),
        ([], True),
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


@pytest.mark.parametrize(
    "source",
    [
        {"configMap": {"name": "c"}},
        {"secret": {"secretName": "s"}},
        {"projected": {"sources": []}},
        {"downwardAPI": {"items": []}},
        {"emptyDir": {}},
        {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
        {"csi": {"driver": "secrets-store.csi.k8s.io"}},
        {"csi": {"driver": "unknown.example"}},
        {"image": {"reference": "models:1"}},
        {"gitRepo": {"repository": "r"}},
        {"nfs": {"server": "s", "path": "/"}},
        {"cephfs": {"monitors": ["m"]}},
        {"glusterfs": {"endpoints": "e", "path": "p"}},
        {"quobyte": {"registry": "r", "volume": "v"}},
        {"azureFile": {"secretName": "s", "shareName": "n"}},
    ],
)
def test_volumes_that_each_pod_has_for_itself_and_network_file_systems_are_shared(
    source: dict[str, Any],
) -> None:
    assert not has_single_node_volume([read_volume(source)], "shop", lambda key: None)


@pytest.mark.parametrize(
    "source",
    [
        {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.example:d", "lun": 0}},
        {"iscsi": {"iqn": "iqn.2001-04.example:d", "readOnly": True}},
        {"rbd": {"monitors": ["m"], "image": "i"}},
        {"fc": {"targetWWNs": ["w"], "lun": 0}},
        {"azureDisk": {"diskName": "d", "diskURI": "u"}},
        {"gcePersistentDisk": {"pdName": "d"}},
        {"awsElasticBlockStore": {"volumeID": "v"}},
        {"cinder": {"volumeID": "v"}},
        {"vsphereVolume": {"volumePath": "p"}},
        {"portworxVolume": {"volumeID": "v"}},
        {"scaleIO": {"gateway": "g", "system": "s"}},
        {"storageos": {"volumeName": "v"}},
        {"photonPersistentDisk": {"pdID": "d"}},
        {"flocker": {"datasetName": "d"}},
        {"flexVolume": {"driver": "d"}},
        {"hostPath": {"path": "/d"}},
        {"kindOfTheFuture": {}},
        {},
    ],
)
def test_disks_directories_of_a_node_and_unknown_kinds_are_not_shared(
    source: dict[str, Any],
) -> None:
    shared = read_volume({"configMap": {"name": "c"}})
    assert has_single_node_volume([shared, read_volume(source)], "shop", lambda key: None)


@pytest.mark.parametrize("source", [{"fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}}, {}])
def test_a_disk_is_not_shared_though_it_has_the_name_of_a_token_volume(
    source: dict[str, Any],
) -> None:
    disk = msgspec.convert({"name": "kube-api-access-data", **source}, Volume)
    assert has_single_node_volume([disk], "shop", lambda key: None)


def read_volume(source: dict[str, Any]) -> Volume:
    return msgspec.convert({"name": "v", **source}, Volume)


def volumes(claim: str) -> list[Volume]:
    return [msgspec.convert({"name": "v", "persistentVolumeClaim": {"claimName": claim}}, Volume)]
