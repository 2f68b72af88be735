import msgspec
import numpy as np

from rescheduler.planning.search.columns.common_contents import CommonContents
from rescheduler.planning.search.columns.master_problem import Penalties
from tests.planning.columns.problems import (
    SAVING,
    Objects,
    Parts,
    priced,
    problem_for,
    replicas,
)


def common_contents(cluster: Objects) -> tuple[Parts, CommonContents]:
    problem = problem_for(cluster, msgspec.structs.replace(SAVING, max_reschedule_pods=1_000))
    parts = Parts(problem)
    penalties = np.full(len(parts.classes), 10.0)
    return parts, CommonContents(
        problem, parts.contents, Penalties(penalties, penalties), lambda: False
    )


def test_nodes_that_are_half_empty_are_offered_contents_that_fill_them() -> None:
    nodes = "abcdefgh"
    cluster = [priced(name, 1.0, cpu="8") for name in nodes]
    cluster += replicas("web", nodes * 2) + replicas("big", nodes, cpu="2")
    parts, common = common_contents(cluster)
    assert common.search()
    offered, contents = common.nearest(1)
    assert set(offered.tolist()) == set(range(8))
    assert parts.contents.are_allowed(offered, contents).all()
    assert (contents @ parts.classes.demand[:, 0] == 8000).all()


def test_a_pod_is_worth_its_share_of_a_node() -> None:
    nodes = "abcdefgh"
    cluster = [priced(name, 1.0, cpu="8") for name in nodes]
    cluster += replicas("web", nodes * 2) + replicas("big", nodes, cpu="2")
    parts, common = common_contents(cluster)
    assert common.search()
    by_cpu = parts.classes.demand[:, 0] / 8000
    assert np.allclose(common.worth_of_pods, by_cpu, atol=1e-4)


def test_nodes_of_many_prices_are_told_apart_roughly() -> None:
    names = [f"n{number}" for number in range(100)]
    cluster = [priced(name, 1.0 + number / 1000, cpu="8") for number, name in enumerate(names)]
    for name in names:
        cluster += replicas(f"web-{name}", [name])
    _, common = common_contents(cluster)
    assert common.search()


def test_nodes_with_nothing_in_common_are_left_to_others() -> None:
    names = [f"n{number}" for number in range(70)]
    cluster = [priced(name, 1.0, cpu="8") for name in names]
    for name in names:
        selector = {"kubernetes.io/hostname": name}
        cluster += replicas(f"web-{name}", [name], nodeSelector=selector)
    _, common = common_contents(cluster)
    assert not common.search()
