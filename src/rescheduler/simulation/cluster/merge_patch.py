"""The patches that the simulated server accepts: JSON merge patches (RFC 7386), and strategic ones.

Of a strategic merge patch it knows what migrations need: conditions are merged by their type.
"""

from typing import Any


def strategically_merged(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The target after a strategic merge patch."""
    status = patch.get("status") or {}
    if "conditions" not in status:
        return dict(merged(target, patch))
    conditions = {old["type"]: old for old in target.get("status", {}).get("conditions") or ()}
    for changed in status["conditions"]:
        if changed.get("$patch") == "delete":
            conditions.pop(changed["type"], None)
        else:
            conditions[changed["type"]] = merged(conditions.get(changed["type"]), changed)
    status = {**status, "conditions": list(conditions.values())}
    return dict(merged(target, {**patch, "status": status}))


def merged(target: Any, patch: Any) -> Any:
    """The target after a merge patch: null removes a field, a list replaces a list.

    What the patch does not touch is shared with the target.
    """
    if not isinstance(patch, dict):
        return patch
    before = target if isinstance(target, dict) else {}
    after = dict(before)
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        elif isinstance(value, dict):
            after[name] = merged(before.get(name), value)
        else:
            after[name] = value
    return before if after == before and isinstance(target, dict) else after
