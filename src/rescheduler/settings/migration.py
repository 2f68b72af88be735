# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""How moves are carried out: how many at once, how patiently, and what is allowed."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rescheduler.settings.value_types import Count, Limit, Options, Seconds

PERCENT_TEXT = r"^(100|[1-9]?[0-9])%$"
NumberOrPercent = (
    Annotated[int, Meta(ge=0, description="a whole number or a percentage such as '25%'")]
    | Annotated[
        str, Meta(pattern=PERCENT_TEXT, description="a whole number or a percentage such as '25%'")
    ]
)


class TemporaryBudget(Options, frozen=True):
    """How a workload without a disruption budget is protected while one of its pods is evicted.

    A number or a percentage of its pods; if both are given, `minAvailable` counts."""

    min_available: NumberOrPercent | None = None
    max_unavailable: NumberOrPercent = 1


class MigrationOptions(Options, frozen=True):
    """How moves are carried out: `migration` in a policy file."""

    max_in_flight: Count = 20
    """How many migrations run at the same time. 0 starts none. A higher number is done sooner,
    with more pods starting, and more load on the API server, at once."""

    max_per_node: Count = 5
    """How many of them may leave the same node, or come to it. Starting pods load a node: images
    are pulled, caches are cold."""

    max_per_namespace: Count = 20
    """How many of them may be in the same namespace."""

    max_per_workload: Limit = Limit("25%")
    """How many of them may move pods of the same workload: a number, or a percentage of its
    replicas, of which at least one may always move."""

    max_retries: Count = 3
    """How often a migration that failed and was undone is tried again."""

    retry_delay_seconds: Seconds = msgspec.field(default=Seconds(10), name="retryDelay")
    """How long to wait before the first of these tries; each further wait is twice as long."""

    timeout_seconds: Seconds = msgspec.field(default=Seconds(120), name="timeout")
    """How long each step may take, such as a new pod until it is Ready. `minReadySeconds` comes
    on top. Slow starters need more; meanwhile the pod takes up room twice."""

    keep_seconds: Seconds = msgspec.field(default=Seconds(3600), name="keepFinished")
    """How long finished Migrations are kept. They are also the planner's memory of what did not
    work; a longer time remembers more and keeps more objects."""

    deployment_coordination: bool = False
    """Whether a Deployment's pod that does not fit beside its successor may be evicted instead,
    under a temporary disruption budget if it has none."""

    temporary_budget: TemporaryBudget = TemporaryBudget()
    """How many pods that temporary budget keeps available."""

    cleanup_delay_seconds: Annotated[float, Meta(ge=0, description="seconds, 0 or more")] = (
        msgspec.field(default=0.0, name="cleanupDelaySeconds")
    )
    """How long the temporary budget stays after the replacement is Ready."""

    workers: Annotated[int, Meta(ge=1, le=100, description="a number from 1 to 100")] = 10
    """How many migrations are reconciled at the same time. Most only wait, so few will do."""
