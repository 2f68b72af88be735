"""An Event that repeats is counted, and no object gets more than a few in an hour."""

from datetime import UTC, datetime, timedelta

from rescheduler.kube.event_correlator import (
    LEFT_OUT,
    LONGEST_MESSAGE,
    MOST_OBJECTS,
    MOST_PER_OBJECT,
    CorrelatedEvent,
    EventCorrelator,
)
from rescheduler.kube.event_recorder import about_pod

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ABOUT = about_pod("shop", "web-1", "uid-1")


def add(
    events: EventCorrelator,
    message: str = "Something happened.",
    reason: str = "Happened",
    *,
    minutes: float = 0,
    warning: bool = False,
    uid: str = "uid-1",
) -> CorrelatedEvent:
    about = {**ABOUT, "uid": uid}
    return events.add(about, reason, message, NOW + timedelta(minutes=minutes), warning=warning)


def test_an_event_that_repeats_is_the_same_one_with_a_count() -> None:
    events = EventCorrelator()
    first = add(events, "Pod web-7d-x1 is not Ready after 120s.")
    again = add(events, "Pod web-7d-y2 is not Ready after 125s.", minutes=5)
    assert again is first
    assert (again.count, again.first, again.last) == (2, NOW, NOW + timedelta(minutes=5))
    assert again.message == "Pod web-7d-y2 is not Ready after 125s."


def test_another_reason_text_type_or_object_is_another_event() -> None:
    events = EventCorrelator()
    found = [
        add(events),
        add(events, "Something else happened."),
        add(events, reason="Failed"),
        add(events, warning=True),
        add(events, uid="uid-2"),
    ]
    assert [event.count for event in found] == [1] * 5


def test_an_object_has_at_most_ten_events_in_an_hour_and_one_that_says_so() -> None:
    events = EventCorrelator()
    words = "abcdefghijklmnopqrst"
    found = [add(events, f"Word {word}.", minutes=1) for word in words]
    different = {id(event): event for event in found}.values()
    assert len(different) == MOST_PER_OBJECT + 1
    left_out = [event for event in different if event.reason == LEFT_OUT]
    assert [event.count for event in left_out] == [len(words) - MOST_PER_OBJECT]
    assert add(events, "Word a.").count == 2, "one that is known still counts"
    assert add(events, "Word t.", minutes=59).reason == LEFT_OUT
    later = add(events, "Word t.", minutes=61)
    assert (later.reason, later.count) == ("Happened", 1)


def test_no_hour_has_more_whenever_it_begins() -> None:
    events = EventCorrelator()
    # The first long before the others.
    minutes = [0, *range(50, 240)]
    found = [add(events, f"Word {chr(0x100 + minute)}.", minutes=minute) for minute in minutes]
    new = {id(event): event.first for event in found}.values()
    for begin in new:
        within = [moment for moment in new if begin <= moment < begin + timedelta(hours=1)]
        assert len(within) <= MOST_PER_OBJECT + 1
    assert len(new) >= 3 * MOST_PER_OBJECT


def test_other_objects_are_not_affected_by_one_with_many_events() -> None:
    events = EventCorrelator()
    for word in "abcdefghijklmnopqrst":
        add(events, f"Word {word}.")
    assert add(events, "Word t.", uid="uid-2").reason == "Happened"


def test_the_objects_reported_longest_ago_are_forgotten() -> None:
    events = EventCorrelator()
    for number in range(MOST_OBJECTS):
        add(events, uid=str(number))
    assert add(events, uid="0").count == 2
    add(events, uid="one more")
    assert add(events, uid="0").count == 3
    assert add(events, uid="1").count == 1


def test_what_controls_a_terminal_is_left_out() -> None:
    message = add(EventCorrelator(), "Moved it: \x1b]0;title\x07\u202eso é.").message
    assert message == "Moved it: �]0;title��so é."


def test_a_long_message_is_cut() -> None:
    message = add(EventCorrelator(), "x" * 5000).message
    assert len(message) == LONGEST_MESSAGE
    assert message.endswith("…")
