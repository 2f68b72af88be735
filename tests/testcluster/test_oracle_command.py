"""The oracle gives the same verdicts as kube-scheduler."""

import json
import subprocess

import pytest

from testcluster.build import ensure_binary
from testcluster.builders import node, pod
from testcluster.client import JsonObject

pytestmark = pytest.mark.usefixtures("binary")


def ask(*arguments: str, items: list[JsonObject]) -> dict[str, JsonObject]:
    answer = subprocess.run(
        [ensure_binary(), "oracle", *arguments],
        input=json.dumps({"items": items}),
        capture_output=True,
        text=True,
        check=True,
    )
    verdicts = [json.loads(line) for line in answer.stdout.splitlines()]
    return {verdict["pod"]: verdict for verdict in verdicts}


def test_a_pod_fits_where_it_is_and_where_there_is_room() -> None:
    taint = {"key": "reserved", "effect": "NoSchedule"}
    verdicts = ask(
        items=[
            node("a", cpu="2"),
            node("b", cpu="2"),
            node("full", cpu="1"),
            node("tainted", taints=[taint]),
            pod("shop/cart-0", on="a", cpu="1500m"),
            pod("shop/done", on="a", phase="Succeeded"),
        ]
    )
    assert verdicts == {
        "shop/cart-0": {
            "pod": "shop/cart-0",
            "fits": ["a", "b"],
            "why": {"full": "NodeResourcesFit", "tainted": "TaintToleration"},
        }
    }


def test_with_the_old_pod_in_place_its_own_node_may_be_too_small() -> None:
    items = [node("a", cpu="2"), node("b", cpu="2"), pod("shop/cart-0", on="a", cpu="1500m")]
    assert ask("--with-old-pod", items=items)["shop/cart-0"]["fits"] == ["b"]
