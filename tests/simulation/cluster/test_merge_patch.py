"""Patches, and what they leave alone."""

from typing import Any

import pytest

from rescheduler.simulation.cluster.merge_patch import (
    BadPatch,
    json_patched,
    merged,
    strategically_merged,
)

POD: dict[str, Any] = {
    "metadata": {"labels": {"app": "web", "tier": "front"}},
    "spec": {"containers": [{"name": "a", "image": "one"}, {"name": "b"}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


def test_a_merge_patch_replaces_lists_and_removes_what_is_null() -> None:
    patch = {"metadata": {"labels": {"tier": None, "x": "y"}}, "spec": {"containers": []}}
    made = merged(POD, patch)
    assert made["metadata"]["labels"] == {"app": "web", "x": "y"}
    assert made["spec"]["containers"] == []
    assert POD["metadata"]["labels"] == {"app": "web", "tier": "front"}


def test_what_a_merge_patch_does_not_touch_is_shared() -> None:
    made = merged(POD, {"metadata": {"labels": {"x": "y"}}, "spec": {}})
    assert made["spec"] is POD["spec"]
    assert made["status"] is POD["status"]


def test_a_strategic_patch_merges_well_known_lists_by_their_keys() -> None:
    patch = {
        "spec": {"containers": [{"name": "b", "image": "two"}, {"name": "a", "$patch": "delete"}]},
        "status": {"conditions": [{"type": "Fine", "status": "True"}]},
    }
    made = strategically_merged(POD, patch)
    assert made["spec"]["containers"] == [{"name": "b", "image": "two"}]
    assert [each["type"] for each in made["status"]["conditions"]] == ["Ready", "Fine"]


def test_a_strategic_patch_with_other_directives_is_refused() -> None:
    with pytest.raises(BadPatch, match="retainKeys"):
        strategically_merged(POD, {"spec": {"$retainKeys": ["containers"]}})


def test_a_json_patch_does_one_operation_after_the_other() -> None:
    made = json_patched(
        POD,
        [
            {"op": "test", "path": "/metadata/labels/app", "value": "web"},
            {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
            {"op": "remove", "path": "/metadata/labels/tier"},
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "c"}},
            {"op": "replace", "path": "/spec/containers/0/image", "value": "two"},
            {"op": "copy", "from": "/metadata/labels/app", "path": "/metadata/labels/copy"},
        ],
    )
    assert made["metadata"]["labels"] == {"app": "web", "a/b": "c", "copy": "web"}
    assert [each.get("image") for each in made["spec"]["containers"]] == ["two", None, None]
    assert POD["spec"]["containers"][0]["image"] == "one"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/metadata/labels/app", "value": "other"},
        {"op": "remove", "path": "/metadata/labels/missing"},
        {"op": "shuffle", "path": "/metadata"},
    ],
)
def test_a_json_patch_that_does_not_hold_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(BadPatch):
        json_patched(POD, [operation])
