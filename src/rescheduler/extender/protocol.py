# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The extender's requests and responses, as kube-scheduler writes and reads them.

Their JSON has the names of Go's fields, which start with a capital letter. A scheduler that has us
configured as `nodeCacheCapable` sends the names of nodes and expects names; any other sends whole
nodes and expects whole nodes, with which it goes on.
"""

from typing import TypeVar

import msgspec

from rescheduler.kube.watch_events import decoder_of
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.model.objects import Part, PodSpec
from rescheduler.model.quantities import BadQuantity
from rescheduler.model.resources import PODS, in_units, pod_amounts
from rescheduler.serving.refusals import BadRequest

T = TypeVar("T")

HIGHEST_SCORE = 10
"""An extender's scores go from 0 to this; the scheduler scales them up to its own."""


class Message(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """A request or a response."""


class ExtenderPod(Part):
    """The pod that kube-scheduler is about to schedule."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()

    def requests(self) -> dict[str, int]:
        """What it takes up on a node, in the scheduler's units."""
        spec = self.spec
        pod_level = spec.resources.requests if spec.resources is not None else {}
        try:
            amounts = pod_amounts(spec.containers, spec.init_containers, pod_level, spec.overhead)
        except BadQuantity as error:
            raise BadRequest(f"pod {self.metadata.key}: {error}") from error
        return {**in_units(amounts), PODS: 1}


class NodeList(Part):
    """Whole nodes, undecoded: the response must have also what we do not read of them."""

    items: list[msgspec.Raw] | None = None


class _NodeMeta(Part):
    name: str


class _NodeName(Part):
    metadata: _NodeMeta


class ExtenderArgs(Message):
    """The request of `filter` and `prioritize`: a pod, and nodes by name or whole."""

    pod: ExtenderPod
    nodes: NodeList | None = None
    node_names: list[str] | None = None
    """None if whole nodes were sent: the response has them in the same form."""

    def names(self) -> list[str]:
        """The names of the nodes, in whichever form they were sent."""
        if self.node_names is not None:
            return self.node_names
        return [decoded(item, _NodeName).metadata.name for item in self.items]

    @property
    def count(self) -> int:
        """How many nodes were sent."""
        return len(self.node_names if self.node_names is not None else self.items)

    @property
    def items(self) -> list[msgspec.Raw]:
        """Whole nodes, if that is what was sent."""
        return (self.nodes.items if self.nodes is not None else None) or []


class UndecodedNames(Message):
    """The same request, to look at its list of names without decoding it."""

    node_names: msgspec.Raw = msgspec.Raw()


class ExtenderFilterResult(Message):
    """The nodes that passed, and why the others did not.

    The reasons are also under `FailedAndUnresolvableNodes`, so that the scheduler does not try
    preemption: it would nominate the pod to a node that we refuse again.
    """

    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    nodes: NodeList | None = None
    node_names: list[str] | None = None
    error: str = ""


class HostPriority(Message):
    """The score of one node; the response of `prioritize` is a list of them."""

    host: str
    score: int


class ExtenderBindingArgs(Message):
    """The request of `bind`."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


class ExtenderBindingResult(Message):
    """The response of `bind`: an empty error means that the pod is bound."""

    error: str = ""


def decoded(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """A request; the error for a bad one names the place in the JSON."""
    try:
        return decoder_of(kind).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"expected {kind.__name__.strip('_')}: {error}") from error
