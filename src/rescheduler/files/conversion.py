"""From plain data, as a person wrote it, to structs; with advice where that does not work."""

from collections.abc import Callable
from difflib import get_close_matches
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from rescheduler.files.problems import InvalidValue, path_steps, problem_of

T = TypeVar("T")


class BadValue(Exception):
    """A value that cannot be used; the text says where it is and what is wrong with it."""

    def __init__(self, problem: InvalidValue) -> None:
        super().__init__(str(problem))


def converted(
    content: Any,
    struct: type[T],
    path: str = "",
    custom: Callable[[type[Any], Any], Any] | None = None,
) -> T:
    """The content as a struct; `path` is where it is in the file, `custom` reads unusual types."""
    try:
        return msgspec.convert(content, struct, dec_hook=custom)
    except msgspec.ValidationError as error:
        problem = problem_of(error, content)
        what = _advice(problem, struct) or problem.what
        raise BadValue(InvalidValue(_joined(path, problem.path), what, problem.value)) from error


def _joined(path: str, inner: str) -> str:
    return f"{path}.{inner}" if path and inner and not inner.startswith("[") else path + inner


def _advice(problem: InvalidValue, struct: Any) -> str | None:
    if problem.unknown_field is not None:
        return _suggestion(problem.unknown_field, _type_at(struct, problem.holder))
    if problem.value is msgspec.UNSET:
        return None
    return _expectation(_type_at(struct, problem.path))


def _suggestion(unknown: str, struct: Any) -> str:
    """Which key may have been meant."""
    known = [field.encode_name for field in msgspec.structs.fields(struct)]
    near = get_close_matches(unknown, known, n=1)
    return f"unknown, did you mean {near[0]}?" if near else f"unknown, expected {', '.join(known)}"


def _expectation(kind: Any) -> str | None:
    """What a type says about its own values."""
    if get_origin(kind) is Annotated:
        metas = [each for each in get_args(kind) if isinstance(each, msgspec.Meta)]
        return next((f"expected {meta.description}" for meta in metas if meta.description), None)
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return next(filter(None, map(_expectation, get_args(kind))), None)
    if get_origin(kind) is Literal:
        return f"expected one of {', '.join(get_args(kind))}"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return f"expected one of {', '.join(kind)}"
    return None


def _type_at(kind: Any, path: str) -> Any:
    for name in path_steps(path):
        kind = _without_none(kind)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
            kind = fields.get(name, Any)
        else:
            # What a list or a mapping holds.
            inner = [each for each in get_args(kind) if each is not Ellipsis]
            kind = inner[-1] if inner else Any
    return _without_none(kind)


def _without_none(kind: Any) -> Any:
    if NoneType in get_args(kind):
        return next(each for each in get_args(kind) if each is not NoneType)
    return kind
