import msgspec

from rescheduler.planning.search.columns.pod_classes import STAYS, pod_classes
from rescheduler.settings import Limit
from testcluster.builders import node
from tests.planning.columns.problems import SAVING, apart, problem_for, replicas


def test_labels_alone_make_no_class() -> None:
    classes = pod_classes(
        problem_for([node("a"), node("b"), *replicas("web", "aab"), *replicas("shop", "ab")])
    )
    assert classes.totals.tolist() == [5]
    assert classes.start.tolist() == [[3], [2]]


def test_another_demand_or_other_nodes_make_a_class() -> None:
    cluster = [
        node("a", labels={"disk": "ssd"}),
        node("b"),
        *replicas("web", "aa"),
        *replicas("big", "a", cpu="2"),
        *replicas("fast", "a", nodeSelector={"disk": "ssd"}),
    ]
    classes = pod_classes(problem_for(cluster))
    assert sorted(classes.totals.tolist()) == [1, 1, 2]
    refused_on_b = classes.refused[1]
    assert classes.totals[refused_on_b].tolist() == [1]


def test_pods_that_exclude_each_other_are_at_most_one_per_node() -> None:
    cluster = [node("a"), node("b"), *replicas("db", "ab", affinity=apart("db"))]
    classes = pod_classes(problem_for(cluster))
    assert classes.most_per_node.tolist() == [1]


def test_classes_that_exclude_each_other_are_known() -> None:
    cluster = [
        node("a"),
        node("b"),
        *replicas("db", "a", affinity=apart("web")),
        *replicas("web", "b"),
    ]
    assert pod_classes(problem_for(cluster)).apart.tolist() == [[False, True], [True, False]]


def test_small_sets_that_exclude_each_other_are_pooled_where_there_are_many() -> None:
    cluster = [node(name, cpu="80") for name in "ab"]
    for number in range(60):
        cluster += replicas(f"db-{number}", "ab", affinity=apart(f"db-{number}"))
    classes = pod_classes(problem_for(cluster))
    assert classes.totals.tolist() == [120]
    assert classes.most_per_node.tolist() == [60]


def test_of_two_pods_that_must_not_be_together_one_is_homeless() -> None:
    cluster = [node("a"), node("b"), *replicas("db", "aa", affinity=apart("db"))]
    classes = pod_classes(problem_for(cluster))
    assert int(classes.homeless.sum()) == 1
    assert classes.start[:, 0].tolist() == [1, 0]
    assert classes.totals.tolist() == [2]


def test_pods_that_stay_keep_others_away() -> None:
    cluster = [
        node("a"),
        node("b"),
        *replicas("db", "b", affinity=apart("db")),
        *replicas(
            "old",
            "a",
            labels={"app": "db", "scheduler.alpha.kubernetes.io/rescheduling": "disabled"},
        ),
    ]
    classes = pod_classes(problem_for(cluster))
    assert classes.refused[:, 0].tolist() == [True, False]
    assert int((classes.of_template != STAYS).sum()) == 1


def test_limits_of_workloads_are_kept_apart() -> None:
    policy = msgspec.structs.replace(SAVING, max_moves_per_workload=Limit(1))
    cluster = [node("a"), node("b"), *replicas("web", "aaa"), *replicas("shop", "aa")]
    classes = pod_classes(problem_for(cluster, policy))
    assert [most for _, most in classes.scopes] == [1, 1]


def test_pods_of_a_class_that_exclude_others_do_not_take_each_others_targets() -> None:
    """One of another set may be there already, and then the plan would lose the move."""
    cluster = [node(name, cpu="80") for name in "ab"]
    for number in range(60):
        cluster += replicas(f"db-{number}", "ab", affinity=apart(f"db-{number}"))
    problem = problem_for([*cluster, *replicas("db-60", "a"), *replicas("db-61", "a")])
    classes = pod_classes(problem)
    assert len(classes) == 1
    of_pod = classes.interchangeable[problem.snapshot.pods.template]
    groups = dict(zip(problem.snapshot.pods.keys, of_pod.tolist(), strict=True))
    assert groups["shop/db-1-0"] == groups["shop/db-1-1"] != groups["shop/db-2-0"]
    assert groups["shop/db-60-0"] == groups["shop/db-61-0"]
