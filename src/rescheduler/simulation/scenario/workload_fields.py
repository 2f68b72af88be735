# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Every field that a workload file may have, its default, and what it means."""

import msgspec

from rescheduler.model.quantities import Quantity
from rescheduler.settings.value_types import AtLeastOne, Count, Options, Percent, Seconds
from rescheduler.simulation.scenario.times import EventTime, TimeOfDay


class Curve(Options, frozen=True):
    """A replica count that swings once a day, gently, between two numbers."""

    low: Count
    """The least, twelve hours from the peak."""

    high: Count
    """The most, at the peak."""

    peak: TimeOfDay = TimeOfDay(14 * 3600)
    """When it is highest."""


class ScaledDeployment(Options, frozen=True):
    """A Deployment whose replica count follows the day, as an autoscaler would have it."""

    name: str
    """`namespace/name`. One that the cluster does not have is made, and then needs `requests`."""

    curve: Curve | None = None
    """A smooth day. Either this, or `points`, or `replicas`."""

    points: dict[str | int, Count] = {}
    """Replica counts by time of day, with straight lines between them."""

    replicas: Count | None = None
    """A count that stays: for a Deployment that is made."""

    every: Seconds = Seconds(600)
    """How often it is scaled."""

    jitter: Percent = 0.0
    """By how many percent each count may be off, at random."""

    requests: dict[str, Quantity] = {}
    """What each pod of a Deployment that is made asks for."""


class BatchJob(Options, frozen=True):
    """A Job that is started again and again."""

    name: str
    """`namespace/name`; each run has a number behind it."""

    pods: AtLeastOne
    """How many pods run at the same time."""

    duration: Seconds
    """How long each of them takes."""

    requests: dict[str, Quantity]
    """What each of them asks for."""

    at: EventTime = EventTime("0s")
    """The first run."""

    every: Seconds | None = None
    """How long from one run to the next; without it, there is one run."""

    jitter: Percent = 0.0
    """By how many percent each pod count and duration may be off, at random."""


class NodeChoice(Options, frozen=True):
    """Something that happens to nodes: to one that is named, or to some."""

    at: EventTime
    """When."""

    node: str | None = None
    """Which node. Either this or `count`."""

    count: AtLeastOne | None = None
    """How many, chosen at random."""

    every: Seconds | None = None
    """How long until it happens again; without it, it happens once."""


class NodeFailure(NodeChoice, frozen=True):
    """Nodes that stop answering."""

    back_after: Seconds | None = None
    """How long until they are back; without it, they never are."""


class Maintenance(NodeChoice, frozen=True):
    """Nodes that someone wants to work on: they get the maintenance label for a while."""

    lasts: Seconds = msgspec.field(default=Seconds(7200), name="for")
    """How long, until the label is taken off."""

    label: str = ""
    """The label, as `key=value`; the policy's default if there is none here."""


class NewNodes(Options, frozen=True):
    """Nodes that come."""

    at: EventTime
    """When."""

    like: str = ""
    """The node that they are copies of, labels and price included. Either this or
    `allocatable`."""

    allocatable: dict[str, Quantity] = {}
    """What each of them has to give."""

    labels: dict[str, str] = {}
    """Labels beside those of `like`."""

    count: AtLeastOne = 1
    """How many."""

    gone_after: Seconds | None = None
    """How long until they are gone again; without it, they stay."""


class Rollout(Options, frozen=True):
    """A new version of a Deployment."""

    deployment: str
    """`namespace/name`."""

    at: EventTime
    """When."""

    every: Seconds | None = None
    """How long until the next one; without it, there is one."""

    requests: dict[str, Quantity] = {}
    """What its pods ask for from then on; as before if there is nothing here."""


class WorkloadFile(Options, frozen=True):
    """What happens, and when."""

    start: TimeOfDay = TimeOfDay(0)
    """The time of day at which the simulation starts."""

    deployments: tuple[ScaledDeployment, ...] = ()
    """Deployments that are scaled."""

    jobs: tuple[BatchJob, ...] = ()
    """Jobs that run."""

    rollouts: tuple[Rollout, ...] = ()
    """New versions."""

    failures: tuple[NodeFailure, ...] = ()
    """Nodes that fail."""

    maintenance: tuple[Maintenance, ...] = ()
    """Nodes that someone works on."""

    new_nodes: tuple[NewNodes, ...] = ()
    """Nodes that are added."""
