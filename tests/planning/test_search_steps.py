"""Steps of pods that are interchangeable, with fewer moves to the same end."""

import numpy as np
import pytest

from rescheduler.planning.search.steps import SearchStep, without_detours

TEMPLATES = np.array([0, 0, 0, 1], np.int32)
"""Pods 0, 1 and 2 are of one template, 3 is of another one."""
A, B, C, D = range(4)


def short(*steps: tuple[int, int, int]) -> list[SearchStep]:
    return without_detours([SearchStep(*each) for each in steps], TEMPLATES)


@pytest.mark.parametrize("steps", [[(0, A, B), (1, B, C)], [(1, B, C), (0, A, B)]])
def test_a_pod_goes_straight_to_where_the_one_goes_whose_place_it_took(
    steps: list[tuple[int, int, int]],
) -> None:
    assert short(*steps) == [(0, A, C)]


def test_longer_detours_are_left_out_too() -> None:
    assert short((0, A, B), (2, C, D), (1, B, C)) == [(0, A, D)]


def test_who_would_come_back_stays() -> None:
    assert short((0, A, B), (1, B, A)) == []


def test_pods_that_differ_do_not_take_each_others_places() -> None:
    steps = (0, A, B), (3, B, C)
    assert short(*steps) == list(steps)


def test_moves_that_have_no_node_in_common_stay_as_they_are() -> None:
    steps = (0, A, B), (1, C, D)
    assert short(*steps) == list(steps)
