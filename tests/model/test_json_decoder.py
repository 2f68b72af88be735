"""JSON of others is decoded, or refused with an error that everybody expects."""

import msgspec
import pytest

from rescheduler.model.json_decoder import JsonDecoder
from rescheduler.model.objects import Part


class Inner(Part):
    name: str = ""


class Outer(Part):
    inner: Inner = Inner()
    raw: msgspec.Raw = msgspec.Raw(b"0")


@pytest.mark.parametrize(
    "start", [b"[", b'{"a":', b'{"inner":', b'{"raw":[', b'{"inner":null,"b":[']
)
@pytest.mark.parametrize("levels", [2_000, 1_000_000])
def test_what_is_nested_too_deeply_is_no_valid_json(start: bytes, levels: int) -> None:
    with pytest.raises(msgspec.DecodeError):
        JsonDecoder(Outer).decode(start + b"[" * levels)
