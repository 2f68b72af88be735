"""Label selectors mean what they mean to Kubernetes, and are written as kubectl takes them."""

import pytest

from rescheduler.model.objects import LabelSelector, Requirement
from rescheduler.model.selectors import BadSelector, matches, parse_selector, selects

WEB = {"app": "web", "tier": "front"}


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(Requirement(key, operator, values),))


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not selects(None, WEB)
    assert not selects(None, {})
    assert selects(LabelSelector(), WEB)
    assert selects(LabelSelector(), {})


def test_all_pairs_must_agree() -> None:
    assert selects(LabelSelector(match_labels={"app": "web", "tier": "front"}), WEB)
    assert not selects(LabelSelector(match_labels={"app": "web", "tier": "back"}), WEB)
    assert not selects(LabelSelector(match_labels={"missing": ""}), WEB)


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (expression("app", "In", "api", "web"), True),
        (expression("app", "In", "api"), False),
        (expression("missing", "In", "web"), False),
        (expression("app", "NotIn", "api"), True),
        (expression("app", "NotIn", "web"), False),
        (expression("missing", "NotIn", "web"), True),
        (expression("app", "Exists"), True),
        (expression("missing", "Exists"), False),
        (expression("app", "DoesNotExist"), False),
        (expression("missing", "DoesNotExist"), True),
        (expression("app", "Resembles", "web"), False),
    ],
)
def test_expressions_hold_as_in_kubernetes(selector: LabelSelector, selected: bool) -> None:
    assert matches(selector, WEB) is selected


def test_pairs_and_expressions_must_hold_together() -> None:
    selector = LabelSelector(
        match_labels={"app": "web"}, match_expressions=(Requirement("tier", "In", ("back",)),)
    )
    assert not selects(selector, WEB)
    assert selects(selector, {"app": "web", "tier": "back"})


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", ()),
        ("  ", ()),
        ("app", (Requirement("app", "Exists"),)),
        ("!app", (Requirement("app", "DoesNotExist"),)),
        ("! app", (Requirement("app", "DoesNotExist"),)),
        ("app=web", (Requirement("app", "In", ("web",)),)),
        ("app == web", (Requirement("app", "In", ("web",)),)),
        ("app=", (Requirement("app", "In", ("",)),)),
        ("app != web", (Requirement("app", "NotIn", ("web",)),)),
        ("app in (web)", (Requirement("app", "In", ("web",)),)),
        ("app in(web, api )", (Requirement("app", "In", ("web", "api")),)),
        ("example.com/team notin (a,b)", (Requirement("example.com/team", "NotIn", ("a", "b")),)),
        (
            "app=web,tier in (a,b),!legacy,x!=y",
            (
                Requirement("app", "In", ("web",)),
                Requirement("tier", "In", ("a", "b")),
                Requirement("legacy", "DoesNotExist"),
                Requirement("x", "NotIn", ("y",)),
            ),
        ),
    ],
)
def test_text_is_read_as_kubectl_reads_it(text: str, requirements: tuple[Requirement, ...]) -> None:
    assert parse_selector(text) == LabelSelector(match_expressions=requirements)


@pytest.mark.parametrize(
    "text",
    [
        "app=web,",
        ",",
        "app in web",
        "app in (a",
        "app=(a)",
        "=web",
        "a b",
        "app=a b",
        "app=web=api",
        "app=!web",
        "a/b/c=d",
        "-app",
        "app=-web",
        "app=" + "x" * 64,
        "x" * 64,
        "UPPER.example/app",
        "replicas>3",
        "!",
        "!app=web",
    ],
)
def test_text_that_kubectl_would_refuse_is_refused(text: str) -> None:
    with pytest.raises(BadSelector, match=r"expected a label selector such as"):
        parse_selector(text)
