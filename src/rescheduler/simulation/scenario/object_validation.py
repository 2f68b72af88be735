# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Checks the fields that controllers read, which reading a cluster for planning does not check.

Planning reads little of a workload; its controller reads the pod template, how rollouts go, and
counts. The API server would have refused what is refused here.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rescheduler.files.conversion import converted
from rescheduler.files.invalid_value import BadValue, InvalidValue
from rescheduler.files.object_checks import problem_with
from rescheduler.model.objects import (
    BudgetSpec,
    DeploymentStrategy,
    Labels,
    LabelSelector,
    Part,
    Pod,
    RollingUpdate,
    Service,
    WorkloadSpec,
)
from rescheduler.model.selectors import matches
from rescheduler.simulation.cluster.json_objects import Json

# A workload with more pods than these is a typing error.
MAX_PODS = 200_000
# Later years leave no room for the simulated time after them.
LAST_YEAR = 9000
EXPECTED_COUNT_OR_PERCENTAGE = "expected a whole number or a percentage such as '25%'"

PERCENTAGE = re.compile(r"\d{1,3}%", re.ASCII)

PodCount = Annotated[int, Meta(ge=0, le=MAX_PODS)]
NonNegative = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class CheckedMetadata(Part):
    """Metadata of any object. The model reads single annotations; here all must be text."""

    labels: Labels = {}
    annotations: Labels = {}
    creation_timestamp: str = ""


class UncheckedTemplate(Part):
    """A pod template; its spec is checked as that of a pod, in a second step."""

    metadata: CheckedMetadata = CheckedMetadata()
    spec: dict[str, Any] = {}


class PartitionedUpdate(RollingUpdate):
    """A rolling update of a StatefulSet may stop at a partition."""

    partition: NonNegative = 0


class UpdateStrategy(DeploymentStrategy):
    """How StatefulSets and DaemonSets replace their pods."""

    rolling_update: PartitionedUpdate | None = None


class ClaimTemplate(Part):
    """What a StatefulSet creates claims from."""

    metadata: dict[str, Any]
    spec: dict[str, Any] = {}


class ControllerSpec(WorkloadSpec):
    """What controllers read of the spec of any workload, beyond what planning reads."""

    replicas: PodCount = 1
    parallelism: PodCount = 1
    completions: PodCount = 1
    template: UncheckedTemplate | None = None
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: NonNegative = 0
    revision_history_limit: NonNegative = 0
    ttl_seconds_after_finished: NonNegative = 0
    suspend: bool = False
    pod_management_policy: str = ""
    volume_claim_templates: tuple[ClaimTemplate, ...] = ()


class CheckedObject(Part):
    """An object of which only the metadata is checked."""

    metadata: CheckedMetadata


class CheckedWorkload(Part):
    """A workload of any kind."""

    metadata: CheckedMetadata
    spec: ControllerSpec = ControllerSpec()


class CheckedBudget(Part):
    """A PodDisruptionBudget."""

    metadata: CheckedMetadata
    spec: BudgetSpec = BudgetSpec()


WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job")
TYPES: dict[str, Any] = {
    **dict.fromkeys(WORKLOADS, CheckedWorkload),
    "PodDisruptionBudget": CheckedBudget,
    "Service": Service,
}


def simulation_problem(value: Json) -> InvalidValue | None:
    """The first reason for which an object cannot be simulated, if there is one."""
    kind = value["kind"]
    try:
        checked = converted(value, TYPES.get(kind, CheckedObject))
    except BadValue as error:
        return error.problem
    return next(_problems(value, kind, checked), None)


def _problems(value: Json, kind: str, checked: Any) -> Iterator[InvalidValue]:
    created = value["metadata"].get("creationTimestamp") or ""
    if created[:4] >= str(LAST_YEAR):
        yield InvalidValue(
            "metadata.creationTimestamp", f"expected a year before {LAST_YEAR}", created
        )
    if isinstance(checked, CheckedBudget):
        budget = checked.spec
        yield from _share_problems(
            "spec", minAvailable=budget.min_available, maxUnavailable=budget.max_unavailable
        )
    if isinstance(checked, CheckedWorkload):
        for name, strategy in (
            ("strategy", checked.spec.strategy),
            ("updateStrategy", checked.spec.update_strategy),
        ):
            rolling = strategy.rolling_update or RollingUpdate()
            yield from _share_problems(
                f"spec.{name}.rollingUpdate",
                maxSurge=rolling.max_surge,
                maxUnavailable=rolling.max_unavailable,
            )
        if checked.spec.template is not None:
            yield from _template_problems(value, kind, checked.spec.template)


def _share_problems(path: str, **shares: int | str | None) -> Iterator[InvalidValue]:
    for name, share in shares.items():
        is_count = isinstance(share, int) and share >= 0
        is_percentage = isinstance(share, str) and PERCENTAGE.fullmatch(share) is not None
        if share is not None and not is_count and not is_percentage:
            yield InvalidValue(f"{path}.{name}", EXPECTED_COUNT_OR_PERCENTAGE, share)


def _template_problems(
    value: Json, kind: str, template: UncheckedTemplate
) -> Iterator[InvalidValue]:
    labels = template.metadata.labels
    pod = {"metadata": {"name": "pod", "labels": labels}, "spec": template.spec}
    try:
        problem = problem_with(converted(pod, Pod))
    except BadValue as error:
        problem = error.problem
    if problem is not None:
        yield InvalidValue(f"spec.template.{problem.path}", problem.what, problem.value)
    selector = value["spec"].get("selector")
    if selector and not matches(_selector_of(kind, selector), labels):
        what = "expected to select the labels of spec.template"
        yield InvalidValue("spec.selector", what, selector)


def _selector_of(kind: str, selector: Json) -> LabelSelector:
    if kind == "ReplicationController":
        return LabelSelector(selector)
    return msgspec.convert(selector, LabelSelector)
