# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""How moves are carried out: how many at once, with which timeouts, and what is allowed."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rescheduler.settings.int_or_percent import Limit
from rescheduler.settings.value_types import BadOption, Count, Options, Seconds, SecondsOrZero

LONGEST_LEAVE_SECONDS = 7.0

PERCENT_TEXT = r"^(100|[1-9]?[0-9])%$"
NumberOrPercent = (
    Annotated[int, Meta(ge=0, description="a whole number or a percentage such as '25%'")]
    | Annotated[
        str, Meta(pattern=PERCENT_TEXT, description="a whole number or a percentage such as '25%'")
    ]
)


class TemporaryBudget(Options, frozen=True):
    """The disruption budget of a workload that has none, while one of its pods is evicted.

    A number or a percentage of its pods; if both are given, `minAvailable` counts."""

    min_available: NumberOrPercent | None = None
    max_unavailable: NumberOrPercent = 1


class MigrationOptions(Options, frozen=True):
    """How moves are carried out: `migration` in a policy file."""

    max_in_flight: Count = 20
    """How many migrations run at the same time. 0 starts none. A higher number finishes sooner,
    with more pods starting, and more load on the API server, at once."""

    max_per_node: Count = 5
    """How many of them may leave one node, or arrive on it. 0 starts none. A higher number loads a
    node more: starting pods pull images and fill caches."""

    max_per_namespace: Limit = Limit("75%")
    """How many of them may be in one namespace: a number, or a percentage of `maxInFlight`. 0
    starts none. With all of `maxInFlight`, whoever may create Migrations in one namespace can hold
    up all others."""

    max_per_workload: Limit = Limit("25%")
    """How many of them may move pods of one workload: a number, or a percentage of its replicas,
    of which at least one may always move."""

    max_retries: Count = 3
    """How often a migration that failed and was rolled back is retried. 0 means never."""

    retry_delay_seconds: Seconds = msgspec.field(default=Seconds(10), name="retryDelay")
    """How long to wait before the first retry; each further wait is twice as long."""

    timeout_seconds: Seconds = msgspec.field(default=Seconds(120), name="timeout")
    """How long each step may take, such as starting a new pod until it is Ready.
    `minReadySeconds` is added. Pods that start slowly need more; until then both pods take up
    room. A Migration can ask for less, not for more. One that waits for longer all the same, such
    as for a pod with a long grace period, no longer counts against these limits."""

    leave_services_seconds: SecondsOrZero = msgspec.field(
        default=SecondsOrZero(3), name="leaveServices"
    )
    """How long before it is stopped a pod is out of its Services: the time in which all proxies
    must learn of it, and in which an application that exits at once answers its last requests. At
    most 7s, because its kubelet puts the pod back every 10s. 0s switches it off. Pods with
    `preStop` hooks in all containers, and those without a Service, need none."""

    keep_seconds: Seconds = msgspec.field(default=Seconds(3600), name="keepFinished")
    """How long finished Migrations are kept, for people who want to look at them. Which moves
    failed is remembered for longer; only where MoveRecords cannot be written, it is not."""

    deployment_coordination: bool = False
    """Whether a Deployment's pod may be evicted if a handoff fails for want of room for both pods,
    under a temporary disruption budget if it has none."""

    temporary_budget: TemporaryBudget = TemporaryBudget()
    """How many pods that temporary budget keeps available."""

    cleanup_delay_seconds: Annotated[float, Meta(ge=0, description="seconds, 0 or more")] = (
        msgspec.field(default=0.0, name="cleanupDelaySeconds")
    )
    """How long the temporary budget stays after the replacement is Ready."""

    workers: Annotated[int, Meta(ge=1, le=100, description="a number from 1 to 100")] = 10
    """How many migrations are reconciled at the same time. Most only wait, so few are enough."""

    def __post_init__(self) -> None:
        seconds = self.leave_services_seconds
        if seconds > LONGEST_LEAVE_SECONDS:
            what = f"expected a duration from 0s to {LONGEST_LEAVE_SECONDS:.0f}s"
            raise BadOption(("leaveServices",), what, f"{seconds:g}s")
