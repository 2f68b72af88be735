"""The page documents the fields of workload files and the keys of results."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import msgspec

from rescheduler.simulation.results.result import Result
from rescheduler.simulation.scenario.workload_fields import WorkloadFile
from rescheduler.simulation.scenario.workload_file import read_workload

PAGE = (Path(__file__).parents[3] / "docs" / "simulation.md").read_text()


def fields_of(struct: Any, prefix: str = "") -> Iterator[str]:
    """Every field with its path; an entry of a list is `name[].field`."""
    for field in msgspec.structs.fields(struct):
        name = f"{prefix}{field.encode_name}"
        inner = [
            argument for argument in get_args(field.type) if argument not in (Ellipsis, NoneType)
        ]
        entry = inner[0] if inner else field.type
        is_struct = isinstance(entry, type) and issubclass(entry, msgspec.Struct)
        is_list = is_struct and Ellipsis in get_args(field.type)
        if not is_list:
            yield name
        if is_struct:
            yield from fields_of(entry, f"{name}[]." if is_list else f"{name}.")


def test_the_page_has_every_field_of_a_workload_file_and_no_other() -> None:
    rows = re.findall(r"^\| `([\w.\[\]]+)` \| \S", PAGE, re.M)
    documented = [row for row in rows if "[]" in row or row == "start"]
    assert sorted(documented) == sorted(fields_of(WorkloadFile))


def test_the_page_has_every_key_of_the_result() -> None:
    missing = [
        field.encode_name
        for field in msgspec.structs.fields(Result)
        if f"`{field.encode_name}`" not in PAGE
    ]
    plain = ["policy", "seed", "start", "seconds", "interrupted", "nodes", "pods", "summary"]
    assert [name for name in missing if name not in plain] == []


def test_the_example_on_the_page_can_be_used() -> None:
    (example,) = re.findall(r"^    start:.*?(?=^\S)", PAGE, re.M | re.S)
    assert read_workload("page", re.sub(r"^    ", "", example, flags=re.M).encode()).jobs
