"""Merge patches, and what they leave alone."""

from typing import Any

from rescheduler.simulation.cluster.merge_patch import merged, strategically_merged

POD: dict[str, Any] = {
    "metadata": {"labels": {"app": "web", "tier": "front"}},
    "spec": {"containers": [{"name": "a", "image": "one"}, {"name": "b"}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


def test_a_merge_patch_replaces_lists_and_removes_what_is_null() -> None:
    patch = {"metadata": {"labels": {"tier": None, "x": "y"}}, "spec": {"containers": []}}
    patched = merged(POD, patch)
    assert patched["metadata"]["labels"] == {"app": "web", "x": "y"}
    assert patched["spec"]["containers"] == []
    assert POD["metadata"]["labels"] == {"app": "web", "tier": "front"}


def test_what_a_merge_patch_does_not_touch_is_shared() -> None:
    patched = merged(POD, {"metadata": {"labels": {"x": "y"}}, "spec": {}})
    assert patched["spec"] is POD["spec"]
    assert patched["status"] is POD["status"]


def test_a_strategic_merge_patch_merges_conditions_by_their_type() -> None:
    mark = {"type": "Mark", "status": "True", "reason": "Because"}
    marked = strategically_merged(POD, {"status": {"phase": "Pending", "conditions": [mark]}})
    assert marked["status"]["conditions"] == [*POD["status"]["conditions"], mark]
    assert marked["status"]["phase"] == "Pending"
    changes = [{"type": "Ready", "status": "False"}, {"type": "Mark", "reason": None}]
    changed = strategically_merged(marked, {"status": {"conditions": changes}})
    assert changed["status"]["conditions"] == [
        {"type": "Ready", "status": "False"},
        {"type": "Mark", "status": "True"},
    ]
    gone = strategically_merged(
        marked, {"status": {"conditions": [{"type": "Mark", "$patch": "delete"}]}}
    )
    assert gone["status"]["conditions"] == POD["status"]["conditions"]
