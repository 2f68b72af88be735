"""JSON merge patches (RFC 7386), the only kind of patch that the simulated server accepts."""

from typing import Any


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
