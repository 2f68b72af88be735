"""Clusters in files can be simulated, or the error names the object that cannot, and why."""

from typing import Any

import msgspec
import pytest

from rescheduler.errors import SnapshotError
from rescheduler.simulation.scenario.cluster_completion import complete_cluster
from rescheduler.simulation.scenario.cluster_input import objects_in
from testcluster.builders import deployment, node

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}


def read(*objects: dict[str, Any]) -> list[dict[str, Any]]:
    return objects_in([("c.json", msgspec.json.encode({"kind": "List", "items": objects}))])


def web(**spec: Any) -> dict[str, Any]:
    built = deployment("shop/web", 2, "500m")
    return {**built, "spec": {**built["spec"], **spec}}


def budget(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "b", "namespace": "shop"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": spec,
    }


def service(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", **more}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            budget(minAvailable="x%"),
            "PodDisruptionBudget shop/b: spec.minAvailable: 'x%': expected a whole number or a "
            "percentage such as '25%'",
        ),
        (
            web(replicas=-3),
            "Deployment shop/web: spec.replicas: -3: expected a whole number >= 0",
        ),
        (
            web(strategy={"rollingUpdate": {"maxSurge": "lots"}}),
            "Deployment shop/web: spec.strategy.rollingUpdate.maxSurge: 'lots': expected a whole",
        ),
        (
            web(template=TEMPLATE, selector={"matchLabels": {"app": "cart"}}),
            "Deployment shop/web: spec.selector: {'matchLabels': {'app': 'cart'}}: expected to "
            "select the labels of spec.template",
        ),
        (
            web(
                template={
                    **TEMPLATE,
                    "spec": {"containers": [{"resources": {"requests": {"cpu": "5oom"}}}]},
                }
            ),
            "Deployment shop/web: spec.template.spec.containers[0].resources.requests.cpu: '5oom'",
        ),
        (
            service(metadata={"name": "s"}, spec={"selector": "app=web"}),
            "Service default/s: spec.selector: 'app=web': expected a mapping",
        ),
        (service(), "items[0]: metadata: missing"),
        (service(metadata={}), "items[0]: metadata.name: missing"),
        (
            node("a") | {"metadata": {"name": "a", "creationTimestamp": "9999-12-31T23:59:59Z"}},
            "Node a: metadata.creationTimestamp: '9999-12-31T23:59:59Z': expected a year before",
        ),
    ],
)
def test_what_no_controller_could_run_is_named(value: dict[str, Any], expected: str) -> None:
    with pytest.raises(SnapshotError) as error:
        read(value)
    assert str(error.value).startswith(f"c.json: {expected}")


def test_what_is_null_is_not_there() -> None:
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": None}}
    nulls = {"spec": {"nodeName": None, "volumes": None}, "status": None}
    objects = complete_cluster(read({**bare, **nulls})).objects
    (pod,) = (obj for obj in objects if obj["kind"] == "Pod")
    assert pod["spec"] == {}
    assert "labels" not in pod["metadata"]


def test_services_are_part_of_the_cluster() -> None:
    objects = read(service(metadata={"name": "s"}, spec={"selector": {"app": "web"}}))
    assert [(obj["kind"], obj["metadata"]["namespace"]) for obj in objects] == [
        ("Service", "default")
    ]


def test_two_services_of_one_name_are_refused() -> None:
    twice = service(metadata={"name": "s"})
    with pytest.raises(SnapshotError, match=r"Service default/s: metadata\.name: there is another"):
        read(twice, twice)
