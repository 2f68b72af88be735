"""Validates custom resources by the schema of their definition.

The schema is the one that is installed on real clusters. There is no CEL interpreter here: each
validation rule is known by its text, and an unknown one is an error when the schema is loaded.
"""

import re
from collections.abc import Callable
from typing import Any

from rescheduler.migration.migration_object import FINISHED, Phase
from rescheduler.simulation.cluster.json_objects import Json

Rule = Callable[[Any, Any], bool]
"""Whether a rule holds for a new value and the old one."""


def is_immutable(name: str) -> Rule:
    """A rule for a field that must not change."""
    return lambda new, old: bool(new.get(name) == old.get(name))


def stays_finished(new: Json, old: Json) -> bool:
    """A finished phase never changes."""
    return old.get("phase") not in FINISHED or new.get("phase") == old.get("phase")


def has_step_and_mode(new: Json, old: Json | None) -> bool:
    """In phase InProgress, step and mode are set."""
    return new.get("phase") != Phase.IN_PROGRESS or ("step" in new and "mode" in new)


RULES: dict[str, Rule] = {
    "self == oldSelf": lambda new, old: bool(new == old),
    "self.pod == oldSelf.pod": is_immutable("pod"),
    "self.targetNode == oldSelf.targetNode": is_immutable("targetNode"),
    "self.mode == oldSelf.mode": is_immutable("mode"),
    "!(oldSelf.phase in ['Completed', 'Failed', 'Cancelled']) || self.phase == oldSelf.phase": (
        stays_finished
    ),
    "self.phase != 'InProgress' || (has(self.step) && has(self.mode))": has_step_and_mode,
}
TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "object": dict,
    "array": list,
}


class SchemaViolation(ValueError):
    """A value violates the schema; the text says where and how."""


class Schema:
    """An OpenAPI schema with validation rules."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        for rule in rules_in(schema):
            assert rule in RULES, f"the simulation does not know the rule {rule!r}"

    def with_defaults(self, value: Json) -> Json:
        """The value with defaults, and without fields that are not in the schema."""
        completed: Json = with_defaults(value, self._schema)
        return completed

    def check(self, value: Json, old: Json | None) -> None:
        """Raise `SchemaViolation` for a value that is not valid, or not after the old one."""
        check(value, old, self._schema, "")


def rules_in(schema: Json) -> list[str]:
    """Every rule of a schema and its parts."""
    found = [validation["rule"] for validation in schema.get("x-kubernetes-validations", ())]
    parts = [*(schema.get("properties") or {}).values()]
    if "items" in schema:
        parts.append(schema["items"])
    return found + [rule for part in parts for rule in rules_in(part)]


def with_defaults(value: Any, schema: Json) -> Any:
    """See `Schema.with_defaults`."""
    if isinstance(value, list) and "items" in schema:
        return [with_defaults(item, schema["items"]) for item in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    completed = {}
    for name, part in schema["properties"].items():
        if name in value:
            completed[name] = with_defaults(value[name], part)
        elif "default" in part:
            completed[name] = with_defaults(part["default"], part)
    return completed


def check(value: Any, old: Any, schema: Json, path: str) -> None:
    """See `Schema.check`."""
    expected = schema.get("type")
    is_bool_as_int = expected == "integer" and isinstance(value, bool)
    if expected is not None and (is_bool_as_int or not isinstance(value, TYPES[expected])):
        raise SchemaViolation(f"{path}: Invalid value: {value!r}: must be of type {expected}")
    for limit, is_kept in LIMITS.items():
        if limit in schema and not is_kept(value, schema[limit]):
            raise SchemaViolation(f"{path}: Invalid value: {value!r}: {limit} is {schema[limit]}")
    if isinstance(value, dict):
        check_fields(value, old if isinstance(old, dict) else None, schema, path)
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            check(item, None, schema["items"], f"{path}[{index}]")


def check_fields(value: Json, old: Json | None, schema: Json, path: str) -> None:
    """Check the fields of an object, and the rules between them."""
    for name in schema.get("required", ()):
        if name not in value:
            raise SchemaViolation(f"{path}.{name}: Required value".removeprefix("."))
    for name, part in schema.get("properties", {}).items():
        if name in value:
            inner = f"{path}.{name}".removeprefix(".")
            check(value[name], (old or {}).get(name), part, inner)
    for rule in schema.get("x-kubernetes-validations", ()):
        # Transition rules do not apply to new objects.
        if "oldSelf" in rule["rule"] and old is None:
            continue
        if not RULES[rule["rule"]](value, old):
            raise SchemaViolation(f"{path}: Invalid value: {rule['message']}")


LIMITS: dict[str, Callable[[Any, Any], bool]] = {
    "enum": lambda value, values: value in values,
    "minimum": lambda value, minimum: value >= minimum,
    "maximum": lambda value, maximum: value <= maximum,
    "minLength": lambda value, minimum: len(value) >= minimum,
    "maxLength": lambda value, maximum: len(value) <= maximum,
    "maxItems": lambda value, maximum: len(value) <= maximum,
    "pattern": lambda value, pattern: re.search(pattern, value) is not None,
}
