"""Which pods break a rule where they are is found without looking at each of them."""

import numpy as np

from rescheduler.labels import HOSTNAME
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from testcluster.builders import node, pod
from testcluster.snapshots import snapshot_of
from tests.planning.feasibility.generated_clusters import generate_cluster

SEEDS = range(12)
CART = {"app": "cart"}


def test_every_pod_that_breaks_a_rule_is_where_it_may_break_one() -> None:
    broken = kept = 0
    for seed in SEEDS:
        snapshot = snapshot_of(generate_cluster(seed).items)
        checker, pods = FeasibilityChecker(snapshot), snapshot.pods
        may_break = {
            template: checker.may_break_a_rule(template) for template in set(pods.template.tolist())
        }
        for row in np.flatnonzero(pods.placed & ~pods.deleting).tolist():
            is_doubtful = may_break[int(pods.template[row])][int(pods.node[row])]
            breaks = checker.breaks_a_rule(row)
            assert is_doubtful or not breaks, f"seed {seed}: {pods.keys[row]}"
            broken, kept = broken + breaks, kept + (not is_doubtful)
    assert broken > 50
    assert kept > 50


def test_no_pod_goes_where_another_would_then_break_its_spread() -> None:
    spread = {"topologyKey": HOSTNAME, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    rules = [{**spread, "labelSelector": {"matchLabels": {"app": "cart"}}}]
    strict = [
        pod(f"shop/strict-{on}-{number}", on=on, labels=CART, topologySpreadConstraints=rules)
        for number, on in enumerate("abb")
    ]
    lax = [pod(f"shop/lax-{number}", on=on, labels=CART) for number, on in enumerate("aac")]
    snapshot = snapshot_of([node("a"), node("b"), node("c"), *strict, *lax])
    checker = FeasibilityChecker(snapshot)
    moved = snapshot.pods.find("shop/lax-0")
    assert moved is not None
    # 3, 2 and 1: to c it is all in order, to b only the place changes where it is not.
    assert not checker.would_harm_others(moved, snapshot.nodes.index["c"])
    assert checker.would_harm_others(moved, snapshot.nodes.index["b"])
