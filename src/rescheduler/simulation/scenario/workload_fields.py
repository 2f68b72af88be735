# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Every field that a workload file may have, its default, and what it means."""

import msgspec

from rescheduler.model.quantities import Quantity
from rescheduler.settings.value_types import AtLeastOne, Count, Options, Percent, Seconds
from rescheduler.simulation.scenario.times import EventTime, TimeOfDay


class Curve(Options, frozen=True):
    """A replica count that follows a cosine between two numbers, with one peak a day."""

    low: Count
    """The lowest count, twelve hours from the peak."""

    high: Count
    """The highest count, at the peak."""

    peak: TimeOfDay = TimeOfDay(14 * 3600)
    """The time of the peak."""


class ScaledDeployment(Options, frozen=True):
    """A Deployment whose replica count follows the time of day, as with an autoscaler."""

    name: str
    """`namespace/name`. One that the cluster does not have is created, and needs `requests`."""

    curve: Curve | None = None
    """A smooth curve. One of `curve`, `points` and `replicas` is needed."""

    points: dict[str | int, Count] = {}
    """Replica counts by time of day, with straight lines between them."""

    replicas: Count | None = None
    """A constant count: for a Deployment that is created."""

    every: Seconds = Seconds(600)
    """How often it is scaled."""

    jitter: Percent = 0.0
    """By how many percent each count varies at most, at random."""

    requests: dict[str, Quantity] = {}
    """The requests of each pod of a Deployment that is created."""


class BatchJob(Options, frozen=True):
    """A Job that is created once, or at an interval."""

    name: str
    """`namespace/name`; each run gets a number as a suffix."""

    pods: AtLeastOne
    """How many pods run at the same time."""

    duration: Seconds
    """How long each pod runs."""

    requests: dict[str, Quantity]
    """The requests of each pod."""

    at: EventTime = EventTime("0s")
    """When the first run starts."""

    every: Seconds | None = None
    """The interval between runs; without it, there is one run."""

    jitter: Percent = 0.0
    """By how many percent each pod count and duration varies at most, at random."""


class NodeChoice(Options, frozen=True):
    """Something that happens to nodes: to a named one, or to random ones."""

    at: EventTime
    """When."""

    node: str | None = None
    """Which node. Either this or `count`."""

    count: AtLeastOne | None = None
    """How many, chosen at random."""

    every: Seconds | None = None
    """The interval at which it happens again; without it, it happens once."""


class NodeFailure(NodeChoice, frozen=True):
    """Nodes that fail: they stop reporting."""

    back_after: Seconds | None = None
    """How long until they recover; without it, they never do."""


class Maintenance(NodeChoice, frozen=True):
    """Nodes under maintenance: they have the maintenance label for a while."""

    lasts: Seconds = msgspec.field(default=Seconds(7200), name="for")
    """How long until the label is removed."""

    label: str = ""
    """The label, as `key=value`; by default that of the default policy."""


class NewNodes(Options, frozen=True):
    """Nodes that are added."""

    at: EventTime
    """When."""

    like: str = ""
    """The node of which they are copies, with labels and price. Either this or `allocatable`."""

    allocatable: dict[str, Quantity] = {}
    """The allocatable resources of each node."""

    labels: dict[str, str] = {}
    """Labels in addition to those of `like`."""

    count: AtLeastOne = 1
    """How many."""

    gone_after: Seconds | None = None
    """How long until they are removed; without it, they stay."""


class Rollout(Options, frozen=True):
    """A new version of a Deployment."""

    deployment: str
    """`namespace/name`."""

    at: EventTime
    """When."""

    every: Seconds | None = None
    """The interval between rollouts; without it, there is one."""

    requests: dict[str, Quantity] = {}
    """The requests of its pods from then on; by default as before."""


class WorkloadFile(Options, frozen=True):
    """The content of a workload file: what happens to the cluster, and when."""

    start: TimeOfDay = TimeOfDay(0)
    """The time of day at which the simulation starts."""

    deployments: tuple[ScaledDeployment, ...] = ()
    """Deployments that are scaled."""

    jobs: tuple[BatchJob, ...] = ()
    """Jobs that are created."""

    rollouts: tuple[Rollout, ...] = ()
    """New versions of Deployments."""

    failures: tuple[NodeFailure, ...] = ()
    """Nodes that fail."""

    maintenance: tuple[Maintenance, ...] = ()
    """Nodes under maintenance."""

    new_nodes: tuple[NewNodes, ...] = ()
    """Nodes that are added."""
