"""Whoever observes the controller cannot disturb it."""

import logging

import pytest

from rescheduler.controller.controller_observer import ControllerObserver, Observers


class Counter(ControllerObserver):
    """Counts how often this replica began to lead."""

    terms = 0

    def began_to_lead(self) -> None:
        self.terms += 1


class Broken(ControllerObserver):
    """Fails whatever happens."""

    def began_to_lead(self) -> None:
        raise ZeroDivisionError


def test_an_observer_that_fails_is_logged_and_holds_up_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counter = Counter()
    with caplog.at_level(logging.ERROR):
        Observers(Broken(), counter).began_to_lead()
    assert counter.terms == 1
    assert "ZeroDivisionError" in caplog.text
