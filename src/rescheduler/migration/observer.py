"""Observes the cluster for one migration, from watches and by asking the server.

What a watch shows may be a moment old. That is safe to act on, because every write names the
version it was decided for. But a watch that does *not* show an object proves nothing, so the
server is always asked whether it exists.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from rescheduler.errors import EvictionRefused, Forbidden, NotFound, Refused
from rescheduler.kube.api_server import PAGE_SIZE, ApiServer, collection_path, object_path
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.labels import JOB_CONTROLLER_UID, MIGRATION_ID
from rescheduler.migration.migration_object import (
    MIGRATION,
    Migration,
)
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.new_pod import new_pod_name
from rescheduler.migration.read_your_writes import ReadYourWrites
from rescheduler.migration.replacement import existed_before, is_of_stateful_set
from rescheduler.migration.services.departures import Departures
from rescheduler.migration.services.endpoint_slices import (
    ENDPOINT_SLICE,
    EndpointSlice,
    OtherEndpoints,
    can_be_left,
    is_selected,
    slices_of,
)
from rescheduler.migration.state_machine.actions import Question
from rescheduler.migration.state_machine.eviction import budget_name
from rescheduler.migration.state_machine.observation import (
    Departure,
    EvictionAnswer,
    Observation,
    PodId,
    ReplicaCounts,
    TargetAnswer,
    WorkloadPods,
    id_of,
)
from rescheduler.migration.state_machine.service_departure import may_be_sent_traffic
from rescheduler.migration.workload_cache import ADOPTING_KINDS, Owner, WorkloadCache
from rescheduler.migration.workload_objects import ObservedWorkload
from rescheduler.model.kinds import BUDGET, CLAIM, NODE, POD, SERVICE, STATEFUL_SET, Kind
from rescheduler.model.moves import Mode
from rescheduler.model.objects import (
    Node,
    Page,
    PodDisruptionBudget,
    Service,
)
from rescheduler.model.rules.immovable_pods import is_job
from rescheduler.model.rules.network_policies import (
    API_GROUPS_PATH,
    NETWORK_POLICY,
    NO_POLICIES,
    ApiGroups,
    NetworkPolicy,
    PolicyLabels,
    policy_labels,
)
from rescheduler.model.rules.surge import IGNORES_NOMINATIONS
from rescheduler.model.rules.volume_sharing import has_single_node_volume
from rescheduler.model.selectors import selector_text, selects
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.settings import Policy

T = TypeVar("T")


class Observer:
    """Builds observations, and finds the answers to the questions of the state machine."""

    def __init__(
        self,
        server: ApiServer,
        watches: MigrationWatches,
        clock: Callable[[], datetime] = WALL_CLOCK.now,
    ) -> None:
        self._server = server
        self._tables = watches.tables
        self._migrations = watches.migrations
        self._pods = watches.pods
        self._findings = watches.findings
        self._all_migrations = watches.all_migrations
        self._may_be_leftover = watches.may_be_leftover
        self.placing_blocker = ""
        """Why this API server cannot place a pod on a chosen node; empty if it can."""
        self._workloads = WorkloadCache(server, watches.tables)
        self._clock = clock
        self._departures = Departures()
        self._taking_snapshot = asyncio.Lock()

    def now(self) -> datetime:
        """The time by which decisions are made."""
        return self._clock()

    async def migration(self, key: str, *, fresh: bool = False) -> Migration | None:
        """A Migration, or None if it does not exist; `fresh` reads it from the server."""
        known = None if fresh else self._migrations.get(key)
        if known is not None:
            return known
        return await self._read(self._migrations, MIGRATION, key, Migration)

    def nothing(self, migration: Migration, policy: Policy) -> Observation:
        """An observation of the Migration and the time alone, without a look at the cluster."""
        return Observation(self._clock(), migration, policy.migration)

    async def observe(
        self, migration: Migration, policy: Policy, *, fresh: bool = False
    ) -> Observation:
        """What the next decision about this migration depends on.

        `fresh` reads its pods from the server. For a finished migration nothing is observed.
        """
        if migration.is_finished:
            return self.nothing(migration, policy)
        old = await self._old_pod(migration, fresh)
        if old is None or old.is_deleting or migration.is_pending:
            self._departures.release(migration.spec.pod.uid)
        reference = old.metadata.controller if old is not None else migration.status.workload
        namespace = migration.metadata.namespace
        workload, ending = None, ""
        if reference is not None:
            workload = await self._workloads.get(
                namespace, reference.kind, reference.name, reference.uid
            )
            ending = self._workloads.ending(namespace, reference, workload)
        return Observation(
            now=self._clock(),
            migration=migration,
            options=policy.migration,
            allow_bare_pods=policy.allow_bare_pods,
            old=old,
            new=await self._new_pod(migration, fresh),
            workload=workload,
            workload_ending=ending,
            replicas=self._replica_counts(namespace, reference, workload),
            unreplaced_from=self._unreplaced_from(namespace, reference),
            placing_blocker=self._placing_blocker(migration, reference),
            target=await self._node(migration.spec.target_node),
            budgets=self._budgets_of(old, migration) if old is not None else (),
            own_budget=self._own_budget(migration),
            has_single_node_volume=old is not None
            and has_single_node_volume(
                old.spec.volumes, old.metadata.namespace, self._tables.of(CLAIM).get
            ),
        )

    async def answer(self, question: Question, o: Observation) -> Observation:
        """The observation together with the answer to a question."""
        match question:
            case Question.SIBLINGS:
                siblings, old = await self._siblings(o)
                o = replace(o, old=old)
                answers = replace(o.answers, siblings=siblings)
            case Question.EVICTION:
                answers = replace(o.answers, eviction=await self._eviction(o))
            case Question.SERVICES:
                namespace = o.migration.metadata.namespace
                answers = replace(o.answers, services=await self._services(namespace))
            case Question.POLICIES:
                answers = replace(o.answers, policies=await self._policies(o.migration))
            case Question.CANDIDATES:
                answers = replace(o.answers, candidates=await self._candidates(o))
            case Question.TARGET:
                answers = replace(o.answers, target=await self._target(o))
            case Question.OLD_DEPARTURE:
                answers = replace(o.answers, old_departure=await self._old_departure(o))
            case Question.NEW_DEPARTURE:
                answers = replace(o.answers, new_departure=await self._rollback_departure(o))
        return replace(o, answers=answers)

    # ------------------------------------------------------------ pods

    async def pod(self, key: str, *, fresh: bool = False) -> MovingPod | None:
        """A pod, or None if it does not exist; `fresh` reads it from the server."""
        known = None if fresh else self._pods.get(key)
        if known is not None:
            return known
        return await self._read(self._pods, POD, key, MovingPod)

    async def _old_pod(self, migration: Migration, fresh: bool) -> MovingPod | None:
        pod = await self.pod(migration.pod_key, fresh=fresh)
        return pod if pod is not None and pod.uid == migration.spec.pod.uid else None

    async def _new_pod(self, migration: Migration, fresh: bool) -> MovingPod | None:
        name = new_pod_name(migration)
        if not name:
            return None
        return await self.pod(f"{migration.metadata.namespace}/{name}", fresh=fresh)

    async def _read(
        self, cache: ReadYourWrites[T], kind: Kind[Any], key: str, type: type[T]
    ) -> T | None:
        try:
            found = await self._server.get(object_path(kind, key), type)
        except NotFound:
            # Only now: until the answer, other workers decide from what was known.
            cache.forget(key)
            return None
        cache.record(found)
        return found

    async def _node(self, name: str) -> Node | None:
        known = self._tables.nodes.get(name)
        if known is not None:
            return known
        try:
            return await self._server.get(object_path(NODE, name), Node)
        except NotFound:
            return None

    # ------------------------------------------------------------ budgets

    def _budgets_of(self, pod: MovingPod, migration: Migration) -> tuple[PodDisruptionBudget, ...]:
        """All budgets that protect a pod, except the temporary one of this migration."""
        budgets: dict[str, PodDisruptionBudget] = self._tables.of(BUDGET).by_key()
        return tuple(
            budget
            for budget in budgets.values()
            if budget.metadata.namespace == pod.metadata.namespace
            and selects(budget.spec.selector, pod.metadata.labels)
            and budget.metadata.labels.get(MIGRATION_ID) != migration.metadata.uid
        )

    def _own_budget(self, migration: Migration) -> PodDisruptionBudget | None:
        key = f"{migration.metadata.namespace}/{budget_name(migration.metadata.uid)}"
        budget: PodDisruptionBudget | None = self._tables.of(BUDGET).get(key)
        return budget

    async def _eviction(self, o: Observation) -> EvictionAnswer:
        """The answer to a dry-run eviction of the old pod."""
        assert o.old is not None
        try:
            await self._server.evict(o.old.key, uid=o.old.uid, dry_run=True)
        except EvictionRefused as error:
            return EvictionAnswer(False, by_budget=True, text=error.answer)
        except Refused as error:
            return EvictionAnswer(False, text=f"eviction refused: {error.answer}")
        return EvictionAnswer(True)

    # ------------------------------------------------------------ pods of the workload

    async def _siblings(self, o: Observation) -> tuple[WorkloadPods, MovingPod | None]:
        """The pods that the workload owns or is about to adopt, and the old one among them.

        All are as the server has them now. A watch may not show yet that the old pod was evicted:
        taken for a sibling that is being deleted, it would end its own move.
        """
        assert o.old is not None or o.workload is not None
        owner = o.old.metadata.controller if o.old is not None else o.migration.status.workload
        assert owner is not None
        adopts = o.workload is not None
        found, old = WorkloadPods(), None
        unrestored: list[PodId] = []
        namespace = o.migration.metadata.namespace
        text = self._selector_of(namespace, owner, o.workload)
        async for page in self._pages(POD, MovingPod, namespace, text):
            pods = [
                pod
                for pod in page
                if controller_uid(pod) == owner.uid or (adopts and not controller_uid(pod))
            ]
            found = found.with_page(pods)
            unrestored += [id_of(pod) for pod in pods if self._is_unrestored(pod, o.migration)]
            old = next((pod for pod in pods if pod.uid == o.migration.spec.pod.uid), old)
        if o.old is not None and old is None:
            old = await self._old_pod(o.migration, fresh=True)
        return replace(found, unrestored=tuple(unrestored)), old

    def _is_unrestored(self, pod: MovingPod, migration: Migration) -> bool:
        is_other = pod.uid != migration.spec.pod.uid
        return is_other and not pod.is_deleting and self._may_be_leftover(pod)

    async def _candidates(self, o: Observation) -> tuple[MovingPod, ...]:
        """The pods of the old pod's controller that may be its replacement."""
        workload = o.migration.status.workload
        if workload is None:
            return ()
        if is_of_stateful_set(o.migration):
            # The replacement has the same name.
            pod = await self.pod(o.migration.pod_key, fresh=True)
            return (pod,) if pod is not None and controller_uid(pod) == workload.uid else ()
        namespace = o.migration.metadata.namespace
        text = self._selector_of(namespace, workload, o.workload)
        return tuple(
            [
                pod
                async for page in self._pages(POD, MovingPod, namespace, text)
                for pod in page
                if controller_uid(pod) == workload.uid
                and not existed_before(pod.metadata, o.migration)
            ]
        )

    def _selector_of(self, namespace: str, owner: Owner, workload: ObservedWorkload | None) -> str:
        """A label selector that narrows down the list of a controller's pods, if one is known."""
        if workload is not None:
            return selector_text(workload.selector)
        if is_job(owner.kind, owner.api_version):
            return f"{JOB_CONTROLLER_UID}={owner.uid}"
        if owner.kind == "StatefulSet":
            found = self._known(STATEFUL_SET, namespace, owner)
            selector = found.spec.selector if found is not None else None
            return selector_text(selector) if selector is not None else ""
        return ""

    def _replica_counts(
        self, namespace: str, owner: Owner | None, workload: ObservedWorkload | None
    ) -> ReplicaCounts | None:
        """What the workload says about itself, if it is of a kind that has replicas."""
        found = workload.owner if workload is not None else None
        if found is None and owner is not None:
            kind = {**ADOPTING_KINDS, "StatefulSet": STATEFUL_SET}.get(owner.kind)
            found = self._known(kind, namespace, owner) if kind is not None else None
        if found is None:
            return None
        desired = 1 if found.spec.replicas is None else found.spec.replicas
        return ReplicaCounts(desired, found.status.ready_replicas)

    def _known(self, kind: Kind[Any], namespace: str, owner: Owner) -> Any:
        """The owner as the tables have it, or None."""
        found = self._tables.of(kind).get(f"{namespace}/{owner.name}")
        return found if found is not None and found.metadata.uid == owner.uid else None

    async def _pages(
        self, kind: Kind[Any], type: type[T], namespace: str, labels: str
    ) -> AsyncIterator[list[T]]:
        """The objects of a namespace, or of all, in pages: there may be thousands of pods."""
        query = {"limit": str(PAGE_SIZE)} | ({"labelSelector": labels} if labels else {})
        path = collection_path(kind, namespace) if namespace else kind.path
        while True:
            page: Page[T] = await self._server.get(path, page_type(type), query)
            yield page.items
            if not page.metadata.continue_token:
                return
            query["continue"] = page.metadata.continue_token

    # ------------------------------------------------------------ policies

    async def _policies(self, migration: Migration) -> PolicyLabels:
        """By which labels policies select. A server without the kind has no such policies."""
        try:
            groups = await self._server.get(API_GROUPS_PATH, ApiGroups)
            pages = self._pages(NETWORK_POLICY, NetworkPolicy, "", "")
            policies = [policy async for page in pages for policy in page]
        except NotFound:
            return NO_POLICIES
        except Forbidden as error:
            return PolicyLabels(unknown_because=f"NetworkPolicies cannot be read: {error.answer}")
        return policy_labels(migration.metadata.namespace, policies, groups)

    # ------------------------------------------------------------ Services

    async def _services(self, namespace: str) -> tuple[Service, ...]:
        return tuple(
            [
                service
                async for page in self._pages(SERVICE, Service, namespace, "")
                for service in page
            ]
        )

    async def departure_of(
        self, pod: MovingPod, stand_in: MovingPod | None, budgets: Iterable[str] = ()
    ) -> Departure:
        """How far a pod is out of the Services that select it.

        Without a pod that stands in for it, it must be the only one to leave of those that share a
        Service or one of the budgets with it.
        """
        labels, namespace = pod.metadata.labels, pod.metadata.namespace
        services = [
            service
            for service in await self._services(namespace)
            if can_be_left(service) and is_selected(service, labels)
        ]
        names = frozenset(service.metadata.name for service in services)
        shared = frozenset(
            service.metadata.name
            for service in services
            if stand_in is None or is_selected(service, stand_in.metadata.labels)
        )
        found = OtherEndpoints()
        if names:
            stand_in_uid = stand_in.uid if stand_in is not None else ""
            pages = self._pages(ENDPOINT_SLICE, EndpointSlice, namespace, slices_of(names))
            async for page in pages:
                found = found.with_page(pod.uid, stand_in_uid, page)
        now = self._clock()
        others = found.with_any if stand_in is None else found.with_stand_in
        self._departures.recall(pod.node, self._all_migrations, now)
        departure = self._departures.look(pod, found.with_pod, now, found.changed_at)
        # A Service without slices, or of which this is the only pod, is not among them.
        replaced = found.with_any if stand_in is None else found.with_any | shared
        unlisted = (names & replaced) - found.with_pod
        departure = replace(departure, unlisted=unlisted)
        rivals: tuple[str, ...] = ()
        if stand_in is None and (pod.has_left_services or may_be_sent_traffic(pod, departure)):
            common = {*(f"{namespace}/{name}" for name in names), *budgets}
            rivals = self._departures.reserve(pod, frozenset(common), now)
        lonely = (found.with_pod & shared) - others
        return replace(
            departure,
            lonely=lonely,
            starting=lonely & found.with_starting,
            forsaken=found.with_pod - shared - found.with_any,
            rivals=rivals,
        )

    async def _old_departure(self, o: Observation) -> Departure:
        assert o.old is not None
        is_evicted = o.migration.status.mode == Mode.EVICT
        names = [f"PodDisruptionBudget {budget.metadata.key}" for budget in o.budgets]
        return await self.departure_of(o.old, None if is_evicted else o.new, names)

    async def _rollback_departure(self, o: Observation) -> Departure:
        """The same for a new pod that is to be deleted. If it is unknown, a rollback goes on."""
        assert o.new is not None
        try:
            return await self.departure_of(o.new, o.old if o.is_old_running else None)
        except (Refused, Forbidden):
            return Departure()

    # ------------------------------------------------------------ placement

    async def _target(self, o: Observation) -> TargetAnswer:
        """Whether the target takes the new pod, by the same filters as the scheduler's."""
        assert o.new is not None
        # One after the other: each needs the memory of a snapshot, and a processor.
        async with self._taking_snapshot:
            snapshot = self._tables.snapshot()
            row = snapshot.pods.find(o.new.key)
            node = snapshot.nodes.index.get(o.migration.spec.target_node)
            if row is None or node is None:
                return TargetAnswer(is_known=False)
            # In a thread: in a large cluster this takes a tenth of a second.
            return TargetAnswer(True, await asyncio.to_thread(refusal_of, snapshot, row, node))

    def _unreplaced_from(self, namespace: str, owner: Owner | None) -> int:
        """How many pods a workload had before one was evicted and not replaced."""
        return (
            0
            if owner is None
            else self._findings.unreplaced_from(namespace, owner.uid, self._clock())
        )

    def _placing_blocker(self, migration: Migration, owner: Owner | None) -> str:
        """Why the new pod cannot be placed on a chosen node; empty if it can."""
        is_ignored = migration.has_ignored_nomination or (
            owner is not None
            and self._findings.ignores_nominations(
                migration.metadata.namespace, owner.uid, self._clock()
            )
        )
        return self.placing_blocker or (IGNORES_NOMINATIONS if is_ignored else "")


def refusal_of(snapshot: Snapshot, pod: int, node: int) -> str:
    """Why the scheduler would not place a pod on a node; empty if it would."""
    checker = FeasibilityChecker(snapshot)
    template = int(snapshot.pods.template[pod])
    with checker.without(pod):
        is_accepted = bool(checker.accepted(template)[node])
        return "" if is_accepted else checker.reason(template, node)


def page_type(type: Any) -> Any:
    """The type of a list of objects of this type."""
    return Page[type]


def controller_uid(pod: MovingPod) -> str:
    """The uid of a pod's controller; empty if it has none."""
    owner = pod.metadata.controller
    return owner.uid if owner is not None else ""
