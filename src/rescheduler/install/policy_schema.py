"""The JSON schema of a policy, from the types of its options, so that Helm refuses a wrong one.

It allows what `files.policy_file` accepts and refuses most of what that refuses, by the name of the
field. Only the program itself knows the strategies of plugins, and rules for several options.
"""

from typing import Any

from msgspec import inspect

from rescheduler.settings import Arguments, Limit, NodeLabel, Seconds, SecondsOrZero, StrategyName

Schema = dict[str, Any]

# Helm's patterns are those of Go: there is no look-ahead.
_DURATION: Schema = {
    "type": "string",
    "pattern": r"^(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ms|us|µs|ns|h|m|s))+$",
}
_CUSTOM: dict[Any, Schema] = {
    Seconds: {"allOf": [_DURATION, {"pattern": "[1-9]"}]},
    SecondsOrZero: _DURATION,
    Limit: {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": r"^(0?[0-9]{1,2}(\.[0-9]{1,6})?|100(\.0{1,6})?)%$"},
        ]
    },
    NodeLabel: {"type": "string", "pattern": r"^[^=!,\s()]+(=[^=!,\s()]*)?$"},
}
_STRATEGY: Schema = {"type": "string", "pattern": "^[A-Z][A-Za-z0-9]*$"}


def policy_schema() -> Schema:
    """The schema of what a policy file may say.

    An unknown field with a mapping may be that of a plugin.
    """
    schema = schema_of(inspect.type_info(Arguments))
    fields = schema["properties"]
    # As in every Kubernetes object, the args of a plugin may have a kind.
    fields |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    fields["excludedPodSelector"]["anyOf"].append({"type": "string"})
    built_in = ", ".join(StrategyName)
    fields["enabledStrategies"] |= {
        "items": _STRATEGY,
        "uniqueItems": True,
        "description": f"{built_in}, and the strategies of plugins.",
    }
    return {**schema, "additionalProperties": {"type": "object"}}


def schema_of(kind: inspect.Type) -> Schema:
    """The schema of one type."""
    match kind:
        case inspect.Metadata():
            return {**schema_of(kind.type), **(kind.extra_json_schema or {})}
        case inspect.StructType():
            return struct_schema(kind)
        case inspect.UnionType():
            return {"anyOf": [schema_of(each) for each in kind.types]}
        case inspect.DictType():
            return {"type": "object", "additionalProperties": schema_of(kind.value_type)}
        case inspect.VarTupleType() | inspect.ListType():
            return {"type": "array", "items": schema_of(kind.item_type)}
        case inspect.IntType() | inspect.FloatType():
            return number_schema(kind)
        case inspect.StrType():
            return {"type": "string"} | ({"pattern": kind.pattern} if kind.pattern else {})
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.NoneType():
            return {"type": "null"}
        case inspect.EnumType():
            return {"enum": [each.value for each in kind.cls]}
        case inspect.LiteralType():
            return {"enum": [*kind.values]}
        case inspect.CustomType():
            return _CUSTOM[kind.cls]
    raise TypeError(f"{kind}: an option of this type has no schema yet")


def struct_schema(kind: inspect.StructType) -> Schema:
    """A block of options; what it does not have is refused."""
    properties = {field.encode_name: schema_of(field.type) for field in kind.fields}
    required = [field.encode_name for field in kind.fields if field.required]
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return schema | ({"required": required} if required else {})


def number_schema(kind: inspect.IntType | inspect.FloatType) -> Schema:
    """A number, within its bounds."""
    bounds = {
        "minimum": kind.ge,
        "maximum": kind.le,
        "exclusiveMinimum": kind.gt,
        "exclusiveMaximum": kind.lt,
    }
    name = "integer" if isinstance(kind, inspect.IntType) else "number"
    return {"type": name, **{key: bound for key, bound in bounds.items() if bound is not None}}
