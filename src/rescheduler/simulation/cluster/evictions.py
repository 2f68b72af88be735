"""The eviction subresource: whether a pod's disruption budgets allow its eviction."""

from rescheduler.simulation.cluster import status_errors
from rescheduler.simulation.cluster.json_objects import (
    Json,
    condition,
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    matches_labels,
    phase_of,
    with_conditions,
)
from rescheduler.simulation.cluster.registry import Registry
from rescheduler.simulation.cluster.resources import resource_named

PODS = resource_named("Pod")
TOO_MANY_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)
WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(
    registry: Registry,
    key: str,
    *,
    uid: str = "",
    version: str = "",
    grace_seconds: int | None = None,
    dry_run: bool = False,
) -> None:
    """Evict a pod; `EvictionRefused` if its budgets do not allow it.

    A dry run only answers whether they would.
    """
    call = f"POST pods/{key}/eviction"
    pod = registry.read("Pod", key, call)
    if not is_exempt(pod):
        check_budget(registry, pod, call, dry_run=dry_run)
    # As in Kubernetes, the budget is charged even if a precondition fails.
    registry.check_preconditions(PODS, pod, uid, version, call)
    if dry_run:
        return
    evicted = condition(
        "DisruptionTarget",
        "True",
        registry.now(),
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )
    registry.set_status("Pod", key, with_conditions(pod["status"], [evicted]))
    registry.delete(PODS, key, uid=uid, grace_seconds=grace_seconds)


def is_exempt(pod: Json) -> bool:
    """Whether budgets do not count the pod: it is finished, pending or being deleted."""
    return is_finished(pod) or phase_of(pod) == "Pending" or is_deleting(pod)


def budgets_of(registry: Registry, pod: Json) -> list[Json]:
    """The budgets that select a pod."""
    return [
        budget
        for budget in registry.indexes.objects_in(
            "PodDisruptionBudget", pod["metadata"]["namespace"]
        )
        if (selector := budget["spec"].get("selector")) is not None
        and matches_labels(registry.selectors.of(selector), pod)
    ]


def check_budget(registry: Registry, pod: Json, call: str, *, dry_run: bool) -> None:
    """Charge the one budget of a pod; raises if it allows no disruption, or if there are two."""
    budgets = budgets_of(registry, pod)
    if len(budgets) > 1:
        raise status_errors.eviction_refused(call, 500, TOO_MANY_BUDGETS)
    if not budgets:
        return
    (budget,) = budgets
    status = budget.get("status") or {}
    if not is_ready(pod) and allows_unready(budget, status):
        return
    if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
        raise status_errors.eviction_refused(call, 429, WOULD_VIOLATE)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        raise status_errors.eviction_refused(call, 429, WOULD_VIOLATE)
    if not dry_run:
        disrupted = {**status.get("disruptedPods", {}), pod["metadata"]["name"]: registry.now()}
        charged = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
        registry.set_status("PodDisruptionBudget", key_of(budget), charged)


def allows_unready(budget: Json, status: Json) -> bool:
    """Whether a pod that is not Ready may be evicted without charging the budget."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired: int = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)
