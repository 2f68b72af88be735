"""Names and labels that all our objects share."""

from typing import Any

from rescheduler.install.tree import Tree, Value

CONTROLLER = "rescheduler"
SCHEDULER = "rescheduler-scheduler"

NAME_LABEL = "app.kubernetes.io/name"
COMPONENT_LABEL = "app.kubernetes.io/component"


def labels(component: str) -> dict[str, str]:
    """The labels of every object of a component; pods are selected by them."""
    is_scheduler = component == SCHEDULER
    return {
        NAME_LABEL: CONTROLLER,
        COMPONENT_LABEL: "scheduler" if is_scheduler else "controller",
    }


def metadata(name: Tree, component: str, *, is_namespaced: bool = True) -> dict[Any, Tree]:
    """The metadata of an object. Helm adds labels of the release."""
    namespace = {"namespace": Value("namespace")} if is_namespaced else {}
    return {"name": name, **namespace, "labels": Value(f"{component}.labels")}
