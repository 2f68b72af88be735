"""Quantities: "500m", "1Gi", "1e3" and what they amount to.

The rules are Kubernetes' own: a decimal number and a suffix that is decimal (n, u, m, k, M, G, T,
P, E), binary (Ki … Ei) or an exponent (e3, E-2). What is finer than a billionth is rounded up, and
so is every conversion to a whole unit: whoever asks for a little gets at least a little.
"""

import re
from functools import lru_cache

Quantity = str | int | float
"""A quantity as JSON carries it: usually text, but a bare number is allowed."""

EXPECTED = "expected a number with an optional suffix, such as '500m', '1.5' or '2Gi'"
LARGEST = 2**63 - 1

_NANO = 10**9
_LONGEST = 1000
_SYNTAX = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<part>\d*))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?\d+))?",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Beyond these powers of ten every number is the largest there is, or the smallest step.
_HUGE, _TINY = 40, -40


class BadQuantity(ValueError):
    """Text that is not a quantity; its message is the offending text and what was expected."""

    def __init__(self, text: Quantity) -> None:
        super().__init__(f"{text!r}: {EXPECTED}")


@lru_cache(maxsize=16384)
def nanos(quantity: Quantity) -> int:
    """The exact amount in billionths, so that sums can be rounded once, at their end."""
    text = quantity if isinstance(quantity, str) else repr(quantity)
    match = _SYNTAX.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise BadQuantity(quantity)
    whole, part = match["whole"], match["part"] or ""
    digits = whole + part
    if not digits:
        raise BadQuantity(quantity)
    amount = _magnitude_nanos(int(digits), -len(part), match["suffix"] or "", match["exponent"])
    return -amount if match["sign"] == "-" else amount


def whole_units(amount_nanos: int) -> int:
    """Billionths in whole units (bytes, pieces), rounded away from zero."""
    return _rounded_away_from_zero(amount_nanos, _NANO)


def milli_units(amount_nanos: int) -> int:
    """Billionths in thousandths (millicores for CPU), rounded away from zero."""
    return _rounded_away_from_zero(amount_nanos, _NANO // 1000)


def _rounded_away_from_zero(amount_nanos: int, nanos_per_unit: int) -> int:
    amount = min(_divide_rounding_up(abs(amount_nanos), nanos_per_unit), LARGEST)
    return amount if amount_nanos >= 0 else -amount


def _magnitude_nanos(digits: int, power: int, suffix: str, exponent: str | None) -> int:
    factor = _NANO << _BINARY[suffix] if suffix in _BINARY else _NANO
    power += int(exponent) if exponent else _DECIMAL.get(suffix, 0)
    if digits == 0:
        return 0
    if power > _HUGE:
        return LARGEST * _NANO
    if power < _TINY - len(str(digits)):
        return 1
    if power >= 0:
        return digits * factor * int(10**power)
    return _divide_rounding_up(digits * factor, 10**-power)


def _divide_rounding_up(amount: int, divisor: int) -> int:
    return -(-amount // divisor)
