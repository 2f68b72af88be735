"""The rules of a custom resource: its schema, and the rules between its fields.

The schema is the one that is installed on real clusters. Its rules are written in CEL, of which
there is no reader here; each is known by its text, and one that is not known is refused when the
schema is read, so that nobody believes it was checked.
"""

import re
from collections.abc import Callable
from typing import Any

from rescheduler.migration.migration_object import FINISHED, Phase
from rescheduler.simulation.cluster.json_objects import Json

Rule = Callable[[Any, Any], bool]
"""Whether a rule holds for a value and the one before it."""


def stays(name: str) -> Rule:
    """A field that cannot be changed."""
    return lambda new, old: bool(new.get(name) == old.get(name))


def stays_finished(new: Json, old: Json) -> bool:
    """What has finished stays so."""
    return old.get("phase") not in FINISHED or new.get("phase") == old.get("phase")


def has_step_and_mode(new: Json, old: Json | None) -> bool:
    """What is in progress says what it does, and how."""
    return new.get("phase") != Phase.IN_PROGRESS or ("step" in new and "mode" in new)


RULES: dict[str, Rule] = {
    "self.pod == oldSelf.pod": stays("pod"),
    "self.targetNode == oldSelf.targetNode": stays("targetNode"),
    "self.mode == oldSelf.mode": stays("mode"),
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
    """A value breaks the schema; the text says where and how."""


class Schema:
    """An OpenAPI schema, read once."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        for rule in rules_in(schema):
            assert rule in RULES, f"the simulation does not know the rule {rule!r}"

    def completed(self, value: Json) -> Json:
        """The value with defaults filled in, and without fields that nobody has defined."""
        made: Json = completed(value, self._schema)
        return made

    def check(self, value: Json, old: Json | None) -> None:
        """Raise `SchemaViolation` if the value is not allowed, or not after the old one."""
        check(value, old, self._schema, "")


def rules_in(schema: Json) -> list[str]:
    """Every rule of a schema and its parts."""
    found = [each["rule"] for each in schema.get("x-kubernetes-validations", ())]
    parts = [*(schema.get("properties") or {}).values()]
    if "items" in schema:
        parts.append(schema["items"])
    return found + [rule for part in parts for rule in rules_in(part)]


def completed(value: Any, schema: Json) -> Any:
    """See `Schema.completed`."""
    if isinstance(value, list) and "items" in schema:
        return [completed(each, schema["items"]) for each in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    made = {}
    for name, part in schema["properties"].items():
        if name in value:
            made[name] = completed(value[name], part)
        elif "default" in part:
            made[name] = completed(part["default"], part)
    return made


def check(value: Any, old: Any, schema: Json, path: str) -> None:
    """See `Schema.check`."""
    wanted = schema.get("type")
    is_number = wanted == "integer" and isinstance(value, bool)
    if wanted is not None and (is_number or not isinstance(value, TYPES[wanted])):
        raise SchemaViolation(f"{path}: Invalid value: {value!r}: must be of type {wanted}")
    for limit, is_kept in LIMITS.items():
        if limit in schema and not is_kept(value, schema[limit]):
            raise SchemaViolation(f"{path}: Invalid value: {value!r}: {limit} is {schema[limit]}")
    if isinstance(value, dict):
        check_fields(value, old if isinstance(old, dict) else None, schema, path)
    if isinstance(value, list) and "items" in schema:
        for place, each in enumerate(value):
            check(each, None, schema["items"], f"{path}[{place}]")


def check_fields(value: Json, old: Json | None, schema: Json, path: str) -> None:
    """The fields of an object, and the rules between them."""
    for name in schema.get("required", ()):
        if name not in value:
            raise SchemaViolation(f"{path}.{name}: Required value".removeprefix("."))
    for name, part in schema.get("properties", {}).items():
        if name in value:
            inner = f"{path}.{name}".removeprefix(".")
            check(value[name], (old or {}).get(name), part, inner)
    for rule in schema.get("x-kubernetes-validations", ()):
        # A rule that speaks of the old value holds as long as there is none.
        if "oldSelf" in rule["rule"] and old is None:
            continue
        if not RULES[rule["rule"]](value, old):
            raise SchemaViolation(f"{path}: Invalid value: {rule['message']}")


LIMITS: dict[str, Callable[[Any, Any], bool]] = {
    "enum": lambda value, words: value in words,
    "minimum": lambda value, least: value >= least,
    "maximum": lambda value, most: value <= most,
    "minLength": lambda value, least: len(value) >= least,
    "maxLength": lambda value, most: len(value) <= most,
    "maxItems": lambda value, most: len(value) <= most,
    "pattern": lambda value, pattern: re.search(pattern, value) is not None,
}
