"""Every reason that `rescheduler status` can give has an entry in the documents."""

import re
from pathlib import Path

import pytest

from rescheduler.planning.plan import NoMovesReason
from rescheduler.simulation.results.measurement.blockers import MEANINGS
from rescheduler.status.reasons import (
    ALL_ADVICE,
    BLOCKER_ADVICE,
    MIGRATION_ADVICE,
    ROUND_ADVICE,
    VIEW_ADVICE,
    MigrationReason,
    RoundReason,
    ViewReason,
)

PAGE = Path(__file__).parent.parent.parent / "docs" / "troubleshooting.md"
ROW = re.compile(r"^\| `(\w+)` \| (.*) \| (.*) \|$", re.M)


@pytest.mark.parametrize("title", ALL_ADVICE)
def test_the_page_has_every_reason_with_what_to_do(title: str) -> None:
    section = PAGE.read_text().partition(f"### {title}\n")[2].partition("\n#")[0]
    rows = [
        (name, meaning, todo.replace(r"\|", "|")) for name, meaning, todo in ROW.findall(section)
    ]
    assert rows == [(name, *advice) for name, advice in sorted(ALL_ADVICE[title].items())]


def test_every_word_that_the_code_can_give_is_in_the_list() -> None:
    assert ROUND_ADVICE.keys() == {*RoundReason, *NoMovesReason} - {""}
    assert MIGRATION_ADVICE.keys() == {*MigrationReason} - {""}
    assert VIEW_ADVICE.keys() == {*ViewReason}
    # tests/simulation finds every blocker of the planner in that list.
    assert BLOCKER_ADVICE.keys() == MEANINGS.keys()
