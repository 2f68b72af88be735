"""What cannot be read is named, with what follows from it."""

import pytest

from rescheduler.errors import NotFound
from rescheduler.status.status_reader import INSTALL_CRDS, unread


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("migrations", "does not know Migrations, so nothing can be moved."),
        ("moverecords", "does not know MoveRecords, so past moves are not shown or remembered."),
    ],
)
def test_a_missing_definition_is_named_with_what_follows(kind: str, said: str) -> None:
    note = unread(kind, NotFound("GET", "no such kind"))
    assert note.reason == "CrdMissing"
    assert said in note.sentence
    assert note.sentence.endswith(INSTALL_CRDS)
