"""Limits that are a number or a percentage, and how a percentage is rounded."""

import re

EXPECTED_LIMIT = "expected a whole number, 0 or more, or a percentage such as '10%'"

_PERCENTAGE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%", re.ASCII)
# Products of percentages may be a little too small; that must not lose a whole number.
_ROUNDING = 1e-6


class Limit(str):
    """A number, or a percentage of a total: `5`, or `10%`."""

    def of(self, total: int) -> int:
        """How many of `total` that is.

        A percentage is rounded down, but not to 0: ten percent of four is one.
        """
        if not self.endswith("%"):
            return int(self)
        percent = float(self[:-1])
        if percent == 0 or total == 0:
            return 0
        return max(int(total * percent / 100 + _ROUNDING), 1)


def limit_of(value: object) -> Limit:
    """A limit from a whole number, or from the text of a percentage."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Limit(value)
    percentage = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    if percentage is None or float(percentage[1]) > 100:
        raise ValueError(EXPECTED_LIMIT)
    return Limit(value)
