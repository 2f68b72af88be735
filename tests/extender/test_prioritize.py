"""The scores of nodes for a new pod."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.extender.waiting_migrations import PromisedRoom
from rescheduler.settings import ScoreWeights
from testcluster.builders import pod
from testcluster.client import JsonObject
from tests.extender.extender_requests import Planned, extender_for, nodes, scored

NEW = pod("shop/new", cpu="100m", memory="100Mi")
NAMES = ["n0", "n1", "n2", "n3", "n4"]


def loaded(cpu: list[float], memory: list[float] | None = None) -> list[JsonObject]:
    """Nodes of 10 CPUs and 10 GiB with so much of each in use."""
    objects = nodes(*NAMES[: len(cpu)])
    for number, (name, cores, gib) in enumerate(zip(NAMES, cpu, memory or cpu, strict=False)):
        objects.append(pod(f"shop/p{number}", on=name, cpu=f"{cores:g}", memory=f"{gib:g}Gi"))
    return objects


def test_the_less_loaded_the_better() -> None:
    extender = extender_for(loaded([1, 3, 5, 7, 9]))
    assert list(scored(extender, NEW, NAMES).values()) == [10, 8, 5, 2, 0]


def test_nodes_that_are_nearly_alike_get_nearly_the_same() -> None:
    extender = extender_for(loaded([5, 5.01, 5.1, 5.3]))
    assert list(scored(extender, NEW, NAMES[:4]).values()) == [10, 10, 9, 7]


@pytest.mark.parametrize(
    ("weights", "best"),
    [
        (ScoreWeights(cpu=1, memory=0, balance=0), "n0"),
        (ScoreWeights(cpu=0, memory=1, balance=0), "n1"),
    ],
)
def test_weights_say_which_resource_counts(weights: ScoreWeights, best: str) -> None:
    extender = extender_for(loaded([1, 8], [8, 1]), score_weights=weights)
    points = scored(extender, NEW, ["n0", "n1"])
    assert points[best] == 10
    assert sorted(points.values()) == [0, 10]


def test_balance_is_for_bringing_nodes_closer_to_the_mean_of_all() -> None:
    """What a pod does for the small node that is empty outweighs what is left of it."""
    objects = [*nodes("small", cpu="4", memory="4Gi"), *nodes("big", cpu="40", memory="40Gi")]
    objects += [*loaded([5, 5, 5]), pod("shop/on-big", on="big", cpu="14", memory="14Gi")]
    newcomer = pod("shop/new", cpu="2", memory="2Gi")
    for weights, points in (
        (ScoreWeights(cpu=1, memory=1, balance=0), {"small": 0, "big": 10}),
        (ScoreWeights(cpu=0, memory=0, balance=1), {"small": 10, "big": 0}),
    ):
        extender = extender_for(objects, score_weights=weights)
        assert scored(extender, newcomer, ["small", "big"]) == points


def test_the_planned_target_gets_ten_and_all_others_at_most_five() -> None:
    extender = extender_for(loaded([1, 3, 5, 7, 9]), Planned({"shop/new": "n4"}))
    other = pod("shop/other", cpu="100m", memory="100Mi")
    assert list(scored(extender, other, NAMES).values()) == [10, 8, 5, 2, 0]
    assert list(scored(extender, NEW, NAMES).values()) == [5, 4, 2, 1, 10]


def test_a_target_that_was_filtered_out_changes_nothing() -> None:
    extender = extender_for(loaded([1, 9]), Planned({"shop/new": "elsewhere"}))
    assert list(scored(extender, NEW, NAMES[:2]).values()) == [10, 0]


def test_promised_room_counts_as_taken() -> None:
    promise = PromisedRoom("n0", {"cpu": 5000, "memory": 5 << 30})
    extender = extender_for(loaded([1, 3]), Planned({}, [promise]))
    assert list(scored(extender, NEW, NAMES[:2]).values()) == [0, 10]


def test_a_node_that_we_do_not_know_gets_no_points() -> None:
    extender = extender_for(loaded([1, 9]))
    assert scored(extender, NEW, ["n0", "unknown"]) == {"n0": 10, "unknown": 0}
    assert scored(extender_for([]), NEW, ["x"]) == {"x": 0}


def test_no_nodes_get_no_points() -> None:
    assert scored(extender_for(loaded([1])), NEW, []) == {}


@pytest.mark.parametrize("given", [{"cpu": "0", "memory": "0"}, {"cpu": "0"}, {"memory": "0"}])
def test_nodes_that_can_give_nothing_get_no_points_however_empty(given: dict[str, str]) -> None:
    """Such as one whose kubelet has not said yet what it has."""
    objects = [*nodes("none", **given), *loaded([30, 1])]
    points = scored(extender_for(objects), NEW, ["none", "n0", "n1"])
    assert points == {"none": 0, "n0": 0, "n1": 10}
    assert scored(extender_for(objects), NEW, ["none"]) == {"none": 0}


def test_a_policy_put_in_place_while_running_counts_at_once() -> None:
    extender = extender_for(loaded([1, 8], [8, 1]))
    for weights, best in (
        (ScoreWeights(cpu=1, memory=0, balance=0), "n0"),
        (ScoreWeights(cpu=0, memory=1, balance=0), "n1"),
    ):
        extender.policy = msgspec.structs.replace(extender.policy, score_weights=weights)
        assert scored(extender, NEW, ["n0", "n1"])[best] == 10


WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 7.0])


@given(
    st.lists(st.tuples(st.floats(0, 20), st.floats(0, 20)), min_size=1, max_size=5),
    st.floats(0, 15),
    st.tuples(WEIGHTS, WEIGHTS, WEIGHTS).filter(any),
)
def test_scores_are_between_0_and_10_and_the_best_gets_10(
    loads: list[tuple[float, float]], cpu: float, weights: tuple[float, float, float]
) -> None:
    objects = loaded([round(cpu, 3) for cpu, _ in loads], [round(memory, 3) for _, memory in loads])
    extender = extender_for(objects, score_weights=ScoreWeights(*weights))
    points = scored(extender, pod("shop/new", cpu=f"{cpu:.3f}"), NAMES[: len(loads)])
    assert max(points.values()) == 10
    assert min(points.values()) >= 0
