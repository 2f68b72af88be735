# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Pod templates: what the pods of one workload have in common, kept once.

Replicas differ in name, node and state, and in nothing else that matters for where they may run.
So each pod is a row of numbers that points to its template, and whatever can be computed from a
template is computed once for all of its pods.
"""

from array import array
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rescheduler.model.move_labels import has_move_labels, without_move_labels
from rescheduler.model.objects import (
    Affinity,
    Annotations,
    Container,
    ContainerStatus,
    Labels,
    OwnerReference,
    Part,
    Pod,
    PodSpec,
    ResourceList,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from rescheduler.model.resources import (
    PODS,
    ResourceAmounts,
    amounts_of,
    container_amounts,
    for_whole_pod,
    in_units,
    largest,
    may_be_set_for_a_pod,
    pod_amounts,
    requests_of,
)
from rescheduler.model.rules.immovable_pods import runs_to_completion
from rescheduler.model.rules.placing_affinity import is_new_pod, without_pin, without_steering
from rescheduler.model.selected_labels import SelectedLabels, named_by_pod


class Resize(Part):
    """What running containers hold where that is not what their pod asks for."""

    containers: tuple[ContainerStatus, ...] = ()
    pod_requests: ResourceList | None = None
    pod_allocated: ResourceList = {}
    infeasible: bool = False

    def allocated_to(self, container: Container) -> ResourceList:
        """What the kubelet promised a container; what it asks for, as long as that may still be."""
        allocated = self._status_of(container).allocated_resources
        return allocated or ({} if self.infeasible else requests_of(container))

    def given_to(self, container: Container) -> ResourceList:
        """What a container really has, as far as the kubelet says."""
        resources = self._status_of(container).resources
        given = resources.requests if resources is not None else {}
        return given or self.allocated_to(container)

    def _status_of(self, container: Container) -> ContainerStatus:
        found = [status for status in self.containers if status.name == container.name]
        return found[0] if found else ContainerStatus()


class PodTemplate(Part):
    """Everything about a pod that its replicas share."""

    namespace: str
    labels: Labels = {}
    annotations: Annotations = Annotations()
    owner: OwnerReference | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = {}
    pod_requests: ResourceList = {}
    node_selector: Labels = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: bool = False
    priority: int = 0
    priority_class_name: str = ""
    host_network: bool = False
    host_users: bool | None = None
    runs_to_completion: bool = False
    resize: Resize | None = None

    @property
    def owner_kind(self) -> str:
        """The kind of the controller; empty for a bare pod."""
        return self.owner.kind if self.owner is not None else ""

    def asked(self) -> dict[str, int]:
        """What a new pod of this template asks of a node, in the scheduler's units."""
        amounts = pod_amounts(
            self.containers, self.init_containers, self.pod_requests, self.overhead
        )
        return {**in_units(amounts), PODS: 1}

    def held(self) -> dict[str, int]:
        """What a running pod of this template takes up on its node while it is being resized.

        The largest of what it asks for, what it was allocated and what it has, each summed over its
        containers, so that a node is never taken for emptier than it is; a resize that cannot
        happen is left out.
        """
        held = for_whole_pod(largest(self._held_states()), self._pod_level_held(), self.overhead)
        return {**in_units(held), PODS: 1}

    def _held_states(self) -> Iterator[ResourceAmounts]:
        resize = self.resize
        assert resize is not None
        if not resize.infeasible:
            yield self._amounts(requests_of)
        if resize.pod_requests and resize.pod_allocated:
            # The kubelet has summed them up already.
            yield amounts_of(resize.pod_allocated)
            yield amounts_of(resize.pod_requests)
        else:
            yield self._amounts(resize.allocated_to)
            yield self._amounts(resize.given_to)

    def _amounts(self, amounts_for: Callable[[Container], ResourceList]) -> ResourceAmounts:
        return container_amounts(self.containers, self.init_containers, amounts_for)

    def _pod_level_held(self) -> ResourceAmounts:
        resize, asked = self.resize, amounts_of(self.pod_requests)
        assert resize is not None
        if resize.pod_requests is None or not any(map(may_be_set_for_a_pod, asked)):
            return asked
        states = [amounts_of(resize.pod_requests), amounts_of(resize.pod_allocated)]
        return largest(states if resize.infeasible else [asked, *states])


Parts = tuple[Any, ...]
_LABELS, _OWNER = map(PodTemplate.__struct_fields__.index, ("labels", "owner"))
_UNMARKED = dict.fromkeys(("original_pod", "previous_marks", "steered_by"))


def shared_parts(pod: Pod, selected: frozenset[str]) -> Parts:
    """What `pod` shares with its replicas: the fields of its template, in their order.

    Nothing that migrations have written on the pod is shared, except for labels that selectors in
    the cluster name: `selected`.
    """
    metadata, spec = pod.metadata, pod.spec
    labels = metadata.labels
    if has_move_labels(labels):
        labels = without_move_labels(labels, selected)
    annotations, affinity = metadata.annotations, spec.affinity
    if annotations.original_pod is not None or annotations.previous_marks is not None:
        # The scheduler goes by all of the affinity, as long as the pod is not bound.
        if affinity is not None and spec.node_name:
            affinity = _without_placing(affinity, annotations)
        annotations = msgspec.structs.replace(annotations, **_UNMARKED)
    return (
        metadata.namespace,
        labels,
        annotations,
        metadata.controller,
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources.requests if spec.resources is not None else {},
        spec.node_selector,
        affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        # Each pod has a token volume with a random name: with it, every pod would be unique.
        tuple([volume for volume in spec.volumes if volume.matters]),
        bool(spec.resource_claims),
        spec.priority,
        spec.priority_class_name,
        spec.host_network,
        spec.host_users,
        # Not the policy itself: a file may leave the default out, which the server fills in.
        runs_to_completion(spec.restart_policy),
        _resize_of(pod),
    )


def _without_placing(affinity: Affinity, marks: Annotations) -> Affinity | None:
    """The affinity without what migrations have added to it; None if nothing is left."""
    body = msgspec.to_builtins(affinity)
    if is_new_pod(marks.original_pod, marks.previous_marks):
        body = without_pin(body)
    if marks.steered_by is not None:
        body = without_steering(body)
    return msgspec.convert(body, Affinity) if body else None


def with_labels(parts: Parts, labels: Labels) -> Parts:
    """The same parts with other labels."""
    return (*parts[:_LABELS], labels, *parts[_LABELS + 1 :])


def _resize_of(pod: Pod) -> Resize | None:
    """None for the usual pod, which has exactly what it asks for."""
    status = pod.status
    statuses = status.container_statuses
    if status.init_container_statuses:
        statuses += status.init_container_statuses
    infeasible = any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible"
        for condition in status.conditions
    )
    if status.resources is None and not infeasible and not _differ(pod.spec, statuses):
        return None
    return Resize(
        containers=statuses,
        pod_requests=status.resources.requests if status.resources is not None else None,
        pod_allocated=status.allocated_resources,
        infeasible=infeasible,
    )


def _differ(spec: PodSpec, statuses: tuple[ContainerStatus, ...]) -> bool:
    """Whether any container was given something else than it asks for."""
    for status in statuses:
        given = status.resources.requests if status.resources is not None else {}
        allocated = status.allocated_resources
        if given or allocated:
            for container in spec.containers + spec.init_containers:
                if container.name == status.name:
                    asked = container.resources.requests
                    if (given and given != asked) or (allocated and allocated != asked):
                        return True
    return False


def _owner_uid(parts: Parts) -> str:
    owner: OwnerReference | None = parts[_OWNER]
    return "" if owner is None else owner.uid


class PooledTemplate(NamedTuple):
    """A template, the parts it was built from, and what follows from them."""

    template: PodTemplate
    parts: Parts
    asked: dict[str, int]
    """What its pods ask for."""
    held: dict[str, int]
    """What its pods hold."""
    selects_by: frozenset[str]
    """The labels of migrations that its own affinity and spread name."""


class TemplatePool:
    """Numbers templates, the same number for equal ones, and forgets those no pod uses."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder(order="deterministic").encode
        self._number_of: dict[bytes, int] = {}
        self._digests: list[bytes] = []
        self._entries: list[PooledTemplate | None] = []
        self._users = array("q")
        self._free: list[int] = []
        self._latest_of_owner: dict[str, int] = {}
        self.added = 0
        """How many templates were ever added."""
        self._added_as = array("q")
        self.selected_labels = SelectedLabels()
        """The labels of migrations that templates have, because selectors name them."""

    def acquire(self, pod: Pod) -> int:
        """The number of the template of `pod`, which now has one user more."""
        return self._acquire(shared_parts(pod, self.selected_labels.keys))

    def acquire_with(self, number: int, move_labels: Labels) -> int:
        """The number of a template for a pod that has these labels of migrations, and else is as
        the template with that number. It now has one user more."""
        selected = self.selected_labels.keys
        parts = self[number].parts
        own = without_move_labels(parts[_LABELS], frozenset())
        shown = {key: value for key, value in move_labels.items() if key in selected}
        return self._acquire(with_labels(parts, {**own, **shown}))

    def _acquire(self, parts: Parts) -> int:
        # Most likely it is that of its owner's last pod, and comparing is quicker than digesting.
        owner = _owner_uid(parts)
        number = self._latest_of_owner.get(owner, -1)
        if number < 0 or self[number].parts != parts:
            number = self._find(parts)
            self._latest_of_owner[owner] = number
        self._users[number] += 1
        return number

    def release(self, number: int) -> None:
        """One user less; the last one takes the template along."""
        self._users[number] -= 1
        if self._users[number] == 0:
            owner = _owner_uid(self[number].parts)
            if self._latest_of_owner.get(owner) == number:
                del self._latest_of_owner[owner]
            del self._number_of[self._digests[number]]
            self.selected_labels.remove(self[number].selects_by)
            self._entries[number] = None
            self._free.append(number)

    def __getitem__(self, number: int) -> PooledTemplate:
        entry = self._entries[number]
        assert entry is not None, "a template without users was asked for"
        return entry

    def __len__(self) -> int:
        return len(self._number_of)

    def added_since(self, added: int) -> list[int]:
        """The numbers given to templates after so many were added; some may be unused again."""
        numbers: list[int] = np.flatnonzero(np.array(self._added_as, np.int64) > added).tolist()
        return numbers

    def digest(self, number: int) -> bytes | None:
        """The same for equal templates; None if no pod uses the template any more."""
        return self._digests[number] if self._entries[number] is not None else None

    def _find(self, parts: Parts) -> int:
        """The number of the template with these parts, new or not."""
        digest = blake2b(self._encode(parts), digest_size=16).digest()
        number = self._number_of.get(digest)
        return self._add(digest, parts) if number is None else number

    def _add(self, digest: bytes, parts: Parts) -> int:
        # Computed before anything is changed: a bad quantity leaves the pool as it was.
        template = PodTemplate(*parts)
        asked = template.asked()
        held = asked if template.resize is None else template.held()
        selects_by = named_by_pod(template.affinity, template.spread)
        entry = PooledTemplate(template, parts, asked, held, selects_by)
        if self._free:
            number = self._free.pop()
            self._digests[number], self._entries[number] = digest, entry
        else:
            number = len(self._entries)
            self._digests.append(digest)
            self._entries.append(entry)
            self._users.append(0)
            self._added_as.append(0)
        self._number_of[digest] = number
        self.selected_labels.add(selects_by)
        self.added += 1
        self._added_as[number] = self.added
        return number
