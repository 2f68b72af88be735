import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.quantities import LARGEST, BadQuantity, milli_units, nanos, whole_units


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("0", 0, 0),
        ("100m", 1, 100),
        ("0.5", 1, 500),
        (".5", 1, 500),
        ("5.", 5, 5000),
        ("+3", 3, 3000),
        ("1e3", 1000, 1_000_000),
        ("1E3", 1000, 1_000_000),
        ("1e-1", 1, 100),
        ("1E", 10**18, LARGEST),
        ("1k", 1000, 1_000_000),
        ("1Ki", 1024, 1_024_000),
        ("1.5Gi", 3 * 2**29, 3 * 2**29 * 1000),
        ("2Ei", 2**61, LARGEST),
        ("1500000u", 2, 1500),
        ("1n", 1, 1),
        ("0.0000000001", 1, 1),
        ("1e100", LARGEST, LARGEST),
        ("1e-100", 1, 1),
        ("9999999Ei", LARGEST, LARGEST),
        (2, 2, 2000),
        (0.1, 1, 100),
    ],
)
def test_amounts_are_what_kubernetes_makes_of_them(
    text: str | float, whole: int, milli: int
) -> None:
    assert whole_units(nanos(text)) == whole
    assert milli_units(nanos(text)) == milli


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "5oom",
        "1 Gi",
        "1ki",
        "1K",
        "Mi",
        "1.2.3",
        "--1",
        "1e",
        "0x10",
        "1m5",
        "\u0661",
        "nan",
    ],
)
def test_what_is_not_a_quantity_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(BadQuantity, match="expected a number with an optional suffix"):
        nanos(text)


@given(st.integers(0, 10**9), st.sampled_from(["", "m", "k", "Ki", "M", "Mi", "u", "n"]))
def test_rounding_never_gives_less_than_was_asked_for(number: int, suffix: str) -> None:
    exact = nanos(f"{number}{suffix}")
    assert whole_units(exact) * 10**9 >= exact > (whole_units(exact) - 1) * 10**9
    assert milli_units(exact) * 10**6 >= exact > (milli_units(exact) - 1) * 10**6


@given(st.integers(1, 10**12), st.sampled_from(["", "m", "Ki", "G", "e3"]))
def test_negative_amounts_mirror_positive_ones(number: int, suffix: str) -> None:
    assert whole_units(nanos(f"-{number}{suffix}")) == -whole_units(nanos(f"{number}{suffix}"))
