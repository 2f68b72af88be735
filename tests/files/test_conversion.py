"""Plain data becomes structs, or the message names the place, the value and what was expected."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from rescheduler.files.conversion import converted
from rescheduler.files.invalid_value import BadValue
from rescheduler.settings.value_types import BadOption, Options, Seconds, custom_value

Port = Annotated[int, Meta(ge=1, le=65535)]


class Probe(Options, frozen=True):
    port: Port
    period: Seconds = Seconds(10)
    scheme: Literal["HTTP", "HTTPS"] = "HTTP"


class Window(Options, frozen=True):
    first: int = 0
    last: int = 9

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise BadOption(("last",), "expected no less than first", self.last)


class Service(Options, frozen=True):
    probes: dict[str, tuple[Probe, ...]] = {}
    weights: dict[str | int, float] = {}
    target: Port | str = "http"
    window: Window | None = None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"probes": {"a.b": [{"port": 1}, {"port": 0}]}}, "probes[a.b][1].port: 0: expected a"),
        ({"probes": {"a": [{"port": 1, "scheme": "FTP"}]}}, "expected one of HTTP, HTTPS"),
        ({"probes": {"a": [{"port": 1, "period": "0s"}]}}, "probes.a[0].period: '0s': expected a"),
        ({"probes": {"a": [{}]}}, "probes.a[0].port: missing"),
        ({"probes": {"a": [{"prot": 1}]}}, "probes.a[0].prot: unknown, did you mean port?"),
        ({"probes": {"a": {}}}, "probes.a: {}: expected a list"),
        ({"probes": {1: []}}, "probes: 1: expected text as a key"),
        ({"weights": {1: 1, 1.5: 2}}, "weights: 1.5: expected text or a whole number as a key"),
        ({"weights": {1: "x"}}, "weights[1]: 'x': expected a number"),
        ({"target": 0}, "target: 0: expected a whole number >= 1 or text"),
        ({"target": 70000}, "target: 70000: expected a whole number <= 65535 or text"),
        ({"target": []}, "target: []: expected a whole number or text"),
        ({"window": {"first": 3, "last": 2}}, "window.last: 2: expected no less than first"),
        ({"window": 3}, "window: 3: expected a mapping"),
        ({3: 4}, "3: expected text as a key"),
        ([], "[]: expected a mapping"),
    ],
)
def test_the_part_that_does_not_fit_is_named(content: Any, expected: str) -> None:
    with pytest.raises(BadValue) as raised:
        converted(content, Service, read_custom=custom_value)
    assert expected in str(raised.value)


def test_a_path_leads_from_the_start_of_the_file() -> None:
    with pytest.raises(BadValue, match=r"^profiles\[1\]\.args\.window: 3: expected a mapping$"):
        converted({"window": 3}, Service, "profiles[1].args", custom_value)


def test_what_fits_is_converted() -> None:
    content = {"probes": {"a": [{"port": 80, "period": "1m30s"}]}, "window": None}
    probe = Probe(port=80, period=Seconds(90))
    assert converted(content, Service, read_custom=custom_value) == Service(probes={"a": (probe,)})


def test_the_error_of_the_library_is_kept_as_the_cause() -> None:
    with pytest.raises(BadValue) as raised:
        converted({"target": 1.5}, Service, read_custom=custom_value)
    assert isinstance(raised.value.__cause__, msgspec.ValidationError)
