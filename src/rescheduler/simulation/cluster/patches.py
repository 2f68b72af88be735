"""Patches: what is meant by a body that changes an object.

What a patch does not touch is shared with the object before it.
"""

import copy
from collections.abc import Sequence
from typing import Any

from rescheduler.simulation.cluster.json_objects import Json

# Lists that a strategic patch merges, by the field that tells their elements apart.
MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "taints": "key",
    "topologySpreadConstraints": "topologyKey",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
MERGED_VALUES = ("finalizers",)


class BadPatch(ValueError):
    """A patch that cannot be applied; the text says why."""


def merged(target: Any, patch: Any) -> Any:
    """The target after a merge patch: null removes a field, a list replaces a list."""
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


def strategically_merged(target: Any, patch: Any) -> Any:
    """The target after a strategic merge patch: well-known lists are merged by their elements."""
    if not isinstance(patch, dict):
        return patch
    before = target if isinstance(target, dict) else {}
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    after = dict(before)
    for name, value in patch.items():
        if name.startswith("$"):
            raise BadPatch(f"{name}: expected no directive but $patch: delete or replace")
        if value is None:
            after.pop(name, None)
        elif isinstance(value, dict):
            after[name] = strategically_merged(before.get(name), value)
        elif isinstance(value, list) and name in MERGED_VALUES:
            after[name] = [*(before.get(name) or ()), *_new(value, before.get(name) or ())]
        elif isinstance(value, list) and name in MERGE_KEYS:
            after[name] = _merged_lists(before.get(name) or (), value, MERGE_KEYS[name])
        else:
            after[name] = value
    return after


def _new(values: Sequence[Any], known: Sequence[Any]) -> list[Any]:
    return [value for value in values if value not in known]


def _merged_lists(before: Sequence[Json], patch: Sequence[Json], name: str) -> list[Json]:
    if any(each == {"$patch": "replace"} for each in patch):
        return [each for each in patch if "$patch" not in each]
    after = list(before)
    for each in patch:
        if name not in each:
            raise BadPatch(f"{each}: expected its {name}, by which it is found in its list")
        places = [place for place, there in enumerate(after) if there.get(name) == each[name]]
        if each.get("$patch") == "delete":
            after = [there for there in after if there.get(name) != each[name]]
        elif places:
            after[places[0]] = strategically_merged(after[places[0]], each)
        else:
            after.append(strategically_merged({}, each))
    return after


def json_patched(target: Json, operations: Any) -> Json:
    """The target after a list of operations."""
    if not isinstance(operations, list):
        raise BadPatch("expected a list of operations")
    made = copy.deepcopy(target)
    for operation in operations:
        _operate(made, operation)
    return made


def _operate(target: Json, operation: Json) -> None:
    path = _steps(operation.get("path", ""))
    if not path:
        raise BadPatch("path: expected a path below the object itself")
    match operation.get("op"):
        case "add":
            _add(target, path, operation["value"])
        case "replace":
            _found(target, path)
            _remove(target, path)
            _add(target, path, operation["value"])
        case "remove":
            _remove(target, path)
        case "test":
            if _found(target, path) != operation["value"]:
                raise BadPatch(f"{operation['path']}: testing value failed")
        case "move" | "copy":
            source = _steps(operation["from"])
            value = copy.deepcopy(_found(target, source))
            if operation["op"] == "move":
                _remove(target, source)
            _add(target, path, value)
        case other:
            raise BadPatch(f"op {other!r}: expected add, remove, replace, test, move or copy")


def _steps(path: str) -> list[str]:
    return [each.replace("~1", "/").replace("~0", "~") for each in path.split("/")[1:]]


def _found(target: Any, path: Sequence[str]) -> Any:
    for step in path:
        try:
            target = target[int(step)] if isinstance(target, list) else target[step]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise BadPatch(f"/{'/'.join(path)}: there is nothing at this path") from error
    return target


def _add(target: Json, path: Sequence[str], value: Any) -> None:
    place = _found(target, path[:-1])
    if isinstance(place, list):
        place.insert(len(place) if path[-1] == "-" else int(path[-1]), value)
    else:
        place[path[-1]] = value


def _remove(target: Json, path: Sequence[str]) -> None:
    _found(target, path)
    place = _found(target, path[:-1])
    if isinstance(place, list):
        del place[int(path[-1])]
    else:
        del place[path[-1]]
