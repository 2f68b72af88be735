# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""What has to be right about an object before it can live, beyond what plans need to know.

A plan reads little of a workload; its controller reads what its pods are made from, how rollouts
go, and how many there are to be. The API server would have refused what is refused here.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rescheduler.files.object_checks import problem_with
from rescheduler.files.problems import InvalidValue, problem_of
from rescheduler.model.objects import Pod
from rescheduler.model.objects.parts import Labels, LabelSelector, Part
from rescheduler.model.selectors import matches
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.cluster.scheduler.default_selectors import Service

# A workload of more pods than these is a slip of the finger.
MOST_PODS = 200_000
LAST_YEAR = 9000
EXPECTED_SHARE = "expected a whole number or a percentage such as '25%'"

PERCENTAGE = re.compile(r"\d{1,3}%", re.ASCII)

PodCount = Annotated[int, Meta(ge=0, le=MOST_PODS)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Share = Annotated[int, Meta(ge=0)] | str


class Metadata(Part):
    """What every object has, and everything may ask for."""

    labels: Labels = {}
    annotations: Labels = {}
    creation_timestamp: str = ""


class Template(Part):
    """What pods are made from; its spec is checked as a pod's."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] = {}


class RollingUpdate(Part):
    """How far a rollout may go over and under the desired count."""

    max_surge: Share | None = None
    max_unavailable: Share | None = None
    partition: Number = 0


class Strategy(Part):
    """How a workload replaces its pods."""

    type: str = ""
    rolling_update: RollingUpdate = RollingUpdate()


class Claim(Part):
    """What a StatefulSet makes volumes from."""

    metadata: dict[str, Any]
    spec: dict[str, Any] = {}


class WorkloadSpec(Part):
    """What controllers read of any workload."""

    replicas: PodCount = 1
    parallelism: PodCount = 1
    completions: PodCount = 1
    template: Template | None = None
    strategy: Strategy = Strategy()
    update_strategy: Strategy = Strategy()
    min_ready_seconds: Number = 0
    revision_history_limit: Number = 0
    ttl_seconds_after_finished: Number = 0
    suspend: bool = False
    pod_management_policy: str = ""
    volume_claim_templates: tuple[Claim, ...] = ()


class BudgetSpec(Part):
    """What must stay up, or may be down."""

    min_available: Share | None = None
    max_unavailable: Share | None = None


class Anything(Part):
    """An object of which nothing more is to be known."""

    metadata: Metadata


class Workload(Part):
    """A workload of any kind."""

    metadata: Metadata
    spec: WorkloadSpec = WorkloadSpec()


class Budget(Part):
    """A disruption budget."""

    metadata: Metadata
    spec: BudgetSpec = BudgetSpec()


WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job")
TYPES: dict[str, Any] = {
    **dict.fromkeys(WORKLOADS, Workload),
    "PodDisruptionBudget": Budget,
    "Service": Service,
}


def simulation_problem(value: Json) -> InvalidValue | None:
    """The first thing for which an object could not live, if there is one."""
    kind = value["kind"]
    try:
        read = msgspec.convert(value, TYPES.get(kind, Anything))
    except msgspec.ValidationError as error:
        return problem_of(error, value)
    return next(_problems(value, kind, read), None)


def _problems(value: Json, kind: str, read: Any) -> Iterator[InvalidValue]:
    created = value["metadata"].get("creationTimestamp") or ""
    if created[:4] >= str(LAST_YEAR):
        yield InvalidValue(
            "metadata.creationTimestamp", f"expected a year before {LAST_YEAR}", created
        )
    if isinstance(read, Budget):
        yield from _shares(
            "spec", minAvailable=read.spec.min_available, maxUnavailable=read.spec.max_unavailable
        )
    if isinstance(read, Workload):
        for name, strategy in (
            ("strategy", read.spec.strategy),
            ("updateStrategy", read.spec.update_strategy),
        ):
            rolling = strategy.rolling_update
            yield from _shares(
                f"spec.{name}.rollingUpdate",
                maxSurge=rolling.max_surge,
                maxUnavailable=rolling.max_unavailable,
            )
        if read.spec.template is not None:
            yield from _template_problems(value, kind, read.spec.template)


def _shares(path: str, **given: int | str | None) -> Iterator[InvalidValue]:
    for name, share in given.items():
        if isinstance(share, str) and PERCENTAGE.fullmatch(share) is None:
            yield InvalidValue(f"{path}.{name}", EXPECTED_SHARE, share)


def _template_problems(value: Json, kind: str, template: Template) -> Iterator[InvalidValue]:
    labels = template.metadata.labels
    pod = {"metadata": {"name": "pod", "labels": labels}, "spec": template.spec}
    try:
        problem = problem_with(msgspec.convert(pod, Pod))
    except msgspec.ValidationError as error:
        problem = problem_of(error, pod)
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
