"""Objects in which fields are null, left out or empty: those that a struct can do without."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from testcluster.client import JsonObject

Place = tuple[str | int, ...]
EMPTY_OF: dict[Any, Any] = {tuple: [], list: [], dict: {}, str: ""}


@dataclass(frozen=True)
class OptionalField:
    """A field of a struct somewhere in an object, whether the object has it or not."""

    place: Place
    type: Any

    def __str__(self) -> str:
        return ".".join(map(str, self.place))

    def empty(self) -> Any:
        """The empty value of the field's type; unset if it has none."""
        types = [without_meta(one) for one in alternatives(self.type)]
        if any(is_struct(one) and not required_fields(one) for one in types):
            return {}
        kinds = [get_origin(one) or one for one in types]
        return next((EMPTY_OF[kind] for kind in kinds if kind in EMPTY_OF), msgspec.UNSET)


def optional_fields(content: Any, kind: Any, place: Place = ()) -> Iterator[OptionalField]:
    """All such fields, outer ones before those inside them."""
    for one in map(without_meta, alternatives(kind)):
        if is_struct(one) and isinstance(content, dict):
            for field in msgspec.structs.fields(one):
                here = (*place, field.encode_name)
                if not field.required:
                    yield OptionalField(here, field.type)
                yield from optional_fields(content.get(field.encode_name), field.type, here)
        elif get_origin(one) in (tuple, list) and isinstance(content, list):
            for index, item in enumerate(content):
                yield from optional_fields(item, get_args(one)[0], (*place, index))


def with_field(content: JsonObject, field: OptionalField, value: Any) -> JsonObject:
    """A copy of the object with another value in one place; an unset one leaves the field out.

    The same object if the place is gone with something around it.
    """
    changed: JsonObject = copied(content)
    set_field(changed, field, value)
    return changed


def copied(content: JsonObject) -> JsonObject:
    """A copy that shares nothing; much faster than `copy.deepcopy`."""
    copy: JsonObject = msgspec.json.decode(msgspec.json.encode(content))
    return copy


def set_field(content: JsonObject, field: OptionalField, value: Any) -> None:
    """Set a field in place, if what is around it is there."""
    parent: Any = content
    for part in field.place[:-1]:
        parent = parent.get(part) if isinstance(parent, dict) else parent[part]
        if not parent:
            return
    if value is msgspec.UNSET:
        parent.pop(field.place[-1], None)
    else:
        parent[field.place[-1]] = value


def with_random_fields(content: JsonObject, kind: Any, chance: Random, value: Any) -> JsonObject:
    """A copy with the value in some of the optional fields, the same for the same chance."""
    fields = list(optional_fields(content, kind))
    changed = copied(content)
    # Innermost first, or most would be gone with what is around them.
    for field in reversed(chance.sample(fields, k=len(fields) // chance.choice((2, 5, 10, 20)))):
        set_field(changed, field, value)
    return changed


def required_fields(struct: Any) -> list[str]:
    """The names of the fields that a struct cannot do without."""
    return [field.name for field in msgspec.structs.fields(struct) if field.required]


def alternatives(kind: Any) -> list[Any]:
    """The types of a union, without None, or the one type."""
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return [one for one in get_args(kind) if one is not NoneType]
    return [kind]


def without_meta(kind: Any) -> Any:
    """The type without its annotations."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def is_struct(kind: Any) -> bool:
    """Whether it is a struct."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
