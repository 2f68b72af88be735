# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The extender's questions and answers, as kube-scheduler writes and reads them.

They have no names in JSON but those of Go's fields, so they begin with a capital letter. A
scheduler that takes us for `nodeCacheCapable` sends the names of nodes and wants names back, any
other sends whole nodes and wants those: it goes on with exactly what it gets.
"""

from typing import TypeVar

import msgspec

from rescheduler.errors import ReschedulerError
from rescheduler.kube.watch_events import decoder_of
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.model.objects import Part, PodSpec
from rescheduler.model.quantities import BadQuantity
from rescheduler.model.resources import PODS, in_units, pod_amounts

T = TypeVar("T")

HIGHEST_SCORE = 10
"""An extender's scores go from 0 to this; the scheduler multiplies them up to its own."""


class BadRequest(ReschedulerError):
    """A question that cannot be understood; asking it again would not help."""


class Message(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """A question or an answer."""


class AskedPod(Part):
    """The pod that a place is sought for."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()

    def demand(self) -> dict[str, int]:
        """What it asks of a node, in the scheduler's units."""
        spec = self.spec
        for_the_pod = spec.resources.requests if spec.resources is not None else {}
        try:
            amounts = pod_amounts(spec.containers, spec.init_containers, for_the_pod, spec.overhead)
        except BadQuantity as error:
            raise BadRequest(f"pod {self.metadata.key}: {error}") from error
        return {**in_units(amounts), PODS: 1}

    @property
    def is_of_a_daemon_set(self) -> bool:
        """Whether its place is given."""
        controller = self.metadata.controller
        return controller is not None and controller.kind == "DaemonSet"


class NodeList(Part):
    """Whole nodes, each as it came: what we do not read must be in the answer all the same."""

    items: list[msgspec.Raw] | None = None


class _NodeMeta(Part):
    name: str


class _NodeName(Part):
    metadata: _NodeMeta


class ExtenderArgs(Message):
    """The question of `filter` and `prioritize`: a pod, and nodes by name or as they are."""

    pod: AskedPod
    nodes: NodeList | None = None
    node_names: list[str] | None = None
    """None if whole nodes were sent: the answer has them in the same form."""

    def names(self) -> list[str]:
        """The names of the nodes, in whichever form they were sent."""
        if self.node_names is not None:
            return self.node_names
        return [question(item, _NodeName).metadata.name for item in self.items]

    @property
    def items(self) -> list[msgspec.Raw]:
        """Whole nodes, if that is what was sent."""
        return (self.nodes.items if self.nodes is not None else None) or []


class ExtenderFilterResult(Message):
    """Which nodes may be used, and why not the others.

    The reasons are also where the scheduler concludes that preemption would not help: it could not
    know what would, and would nominate the pod to a node that we refuse again.
    """

    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    nodes: NodeList | None = None
    node_names: list[str] | None = None
    error: str = ""


class HostPriority(Message):
    """The score of one node; the answer of `prioritize` is a list of them."""

    host: str
    score: int


class ExtenderBindingArgs(Message):
    """The question of `bind`."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


class ExtenderBindingResult(Message):
    """Its answer: an empty error means that the pod is bound."""

    error: str = ""


def question(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """The question in a body; its message says where in the JSON a mistake is."""
    try:
        return decoder_of(kind).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"expected {kind.__name__.strip('_')}: {error}") from error
