"""From JSON to structs, by the rule of Kubernetes: a field that is `null` is a field left out.

Go writes `null` for a list, a map or a pointer that is not set, and reads it as "not set" for a
field of any type. So one rule holds for every struct: a `null` stands for the default of its field.
It is not the same as an empty value: a selector that is `null` selects what a missing one does, one
that is `{}` selects everything. A field without a default must have a value. A `null` in a list, or
as the value of a key in a map, is an error: Kubernetes never writes one.

Ordinary objects have few such fields or none, and there are many of them. So they are decoded as
they are, and only where that fails, by a second type that allows `null`. It names the same fields:
what nobody reads is skipped in either case, however large it is.
"""

from functools import cache
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec

T = TypeVar("T")


class JsonDecoder(Generic[T]):
    """Decodes JSON as one type. Building one costs more than using it."""

    def __init__(self, type: type[T]) -> None:
        self._type: Any = type
        self._decode_strictly = msgspec.json.Decoder(type).decode

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """The value in the data. `msgspec.ValidationError` if it does not fit the type.

        `msgspec.DecodeError` if it is no JSON, or nested more deeply than any object is.
        """
        try:
            try:
                return self._decode_strictly(data)
            except msgspec.ValidationError:
                return self._decode_strictly(_encoded_without_nulls(data, self._type))
        except RecursionError as error:
            raise msgspec.DecodeError("JSON is nested too deeply") from error


def without_nulls(content: Any) -> Any:
    """The same rule for plain data: no mapping in the result has a `None` as a value."""
    if isinstance(content, dict):
        return {key: without_nulls(value) for key, value in content.items() if value is not None}
    if isinstance(content, list):
        return [without_nulls(value) for value in content]
    return content


def _encoded_without_nulls(data: bytes | msgspec.Raw, type: Any) -> bytes:
    """The fields of a type that have a value, as JSON."""
    return msgspec.json.encode(_nullable_decoder(type).decode(data))


@cache
def _nullable_decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_nullable(type))


@cache
def _nullable(kind: Any) -> Any:
    """The type of the same JSON in which `null` is allowed wherever a field has a default."""
    if _is_struct(kind):
        return _nullable_struct(kind)
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return Union[tuple(map(_nullable, get_args(kind)))]  # noqa: UP007 (it is computed)
    if get_origin(kind) in (tuple, list, dict):
        return get_origin(kind)[tuple(map(_nullable, get_args(kind)))]
    return kind


def _nullable_struct(struct: Any) -> Any:
    """A struct with the same fields, which leaves those out that are None when it is encoded."""
    config = (get_origin(struct) or struct).__struct_config__
    return msgspec.defstruct(
        config.tag if isinstance(config.tag, str) else "Nullable",
        [_nullable_field(field) for field in msgspec.structs.fields(struct)],
        omit_defaults=True,
        forbid_unknown_fields=config.forbid_unknown_fields,
        tag=config.tag,
        tag_field=config.tag_field,
        kw_only=True,
    )


def _nullable_field(field: msgspec.structs.FieldInfo) -> tuple[str, Any, Any]:
    kind = _nullable(field.type)
    if field.required:
        return field.name, kind, msgspec.field(name=field.encode_name)
    # What is undecoded JSON takes a null as it is.
    optional = kind if kind is msgspec.Raw else kind | None
    return field.name, optional, msgspec.field(default=None, name=field.encode_name)


def _is_struct(kind: Any) -> bool:
    struct = get_origin(kind) or kind
    return isinstance(struct, type) and issubclass(struct, msgspec.Struct)
