"""Observes the cluster for one migration, from watches and by asking the server.

What a watch shows may be a moment old. That is safe to act on, because every write names the
version it was decided for. But a watch that does *not* show an object proves nothing, so the
server is always asked whether it exists.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from rescheduler.errors import EvictionRefused, NotFound, Refused
from rescheduler.kube.api_server import ApiServer, collection_path, object_path
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.labels import JOB_CONTROLLER_UID, MIGRATION_ID
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.new_pod import new_pod_name
from rescheduler.migration.read_your_writes import ReadYourWrites
from rescheduler.migration.state_machine.actions import Question
from rescheduler.migration.state_machine.eviction import budget_name
from rescheduler.migration.state_machine.observation import EvictionAnswer, Observation
from rescheduler.migration.workload_cache import WorkloadCache
from rescheduler.model.kinds import BUDGET, CLAIM, NODE, POD, SERVICE, STATEFUL_SET, Kind
from rescheduler.model.objects import LabelSelector, Node, Page, PodDisruptionBudget, Service
from rescheduler.model.rules.volume_sharing import has_single_node_volume
from rescheduler.model.selectors import selector_text, selects
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
        self._workloads = WorkloadCache(server, watches.tables)
        self._clock = clock

    async def migration(self, key: str, *, fresh: bool = False) -> Migration | None:
        """A Migration, or None if it does not exist; `fresh` reads it from the server."""
        known = None if fresh else self._migrations.get(key)
        if known is not None:
            return known
        return await self._read(self._migrations, MIGRATION, key, Migration)

    async def observe(
        self, migration: Migration, policy: Policy, *, fresh: bool = False
    ) -> Observation:
        """What the next decision about this migration depends on.

        `fresh` reads its pods from the server. For a finished migration nothing is observed.
        """
        if migration.is_finished:
            return Observation(self._clock(), migration, policy.migration)
        old = await self._old_pod(migration, fresh)
        reference = old.metadata.controller if old is not None else migration.status.workload
        workload = None
        if reference is not None:
            namespace = migration.metadata.namespace
            workload = await self._workloads.get(
                namespace, reference.kind, reference.name, reference.uid
            )
        return Observation(
            now=self._clock(),
            migration=migration,
            options=policy.migration,
            allow_bare_pods=policy.allow_bare_pods,
            old=old,
            new=await self._new_pod(migration, fresh),
            workload=workload,
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
                answers = replace(o.answers, siblings=await self._siblings(o))
            case Question.EVICTION:
                answers = replace(o.answers, eviction=await self._eviction(o))
            case Question.SERVICES:
                namespace = o.migration.metadata.namespace
                services = await self._list(SERVICE, Service, namespace, "")
                answers = replace(o.answers, services=services)
            case Question.CANDIDATES:
                answers = replace(o.answers, candidates=await self._candidates(o))
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
        key = f"{migration.metadata.namespace}/{budget_name(migration)}"
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

    async def _siblings(self, o: Observation) -> tuple[MovingPod, ...]:
        """The pods that the workload owns or is about to adopt."""
        assert o.workload is not None
        text = selector_text(o.workload.selector)
        found = await self._list(POD, MovingPod, o.migration.metadata.namespace, text)
        owner = o.workload.owner.metadata.uid
        return tuple(pod for pod in found if controller_uid(pod) in ("", owner))

    async def _candidates(self, o: Observation) -> tuple[MovingPod, ...]:
        """The pods of the old pod's controller."""
        workload = o.migration.status.workload
        if workload is None:
            return ()
        text = self._workload_selector(o)
        found = await self._list(POD, MovingPod, o.migration.metadata.namespace, text)
        return tuple(pod for pod in found if controller_uid(pod) == workload.uid)

    def _workload_selector(self, o: Observation) -> str:
        """A label selector that narrows down the list of a controller's pods, if one is known."""
        workload = o.migration.status.workload
        if o.workload is not None:
            return selector_text(o.workload.selector)
        if workload is not None and workload.kind == "Job":
            return f"{JOB_CONTROLLER_UID}={workload.uid}"
        if workload is not None and workload.kind == "StatefulSet":
            key = f"{o.migration.metadata.namespace}/{workload.name}"
            found = self._tables.of(STATEFUL_SET).get(key)
            selector: LabelSelector | None = found.spec.selector if found is not None else None
            return selector_text(selector) if selector is not None else ""
        return ""

    async def _list(
        self, kind: Kind[Any], type: type[T], namespace: str, labels: str
    ) -> tuple[T, ...]:
        query = {"labelSelector": labels} if labels else {}
        path = collection_path(kind, namespace)
        page: Page[T] = await self._server.get(path, page_type(type), query)
        return tuple(page.items)


def page_type(type: Any) -> Any:
    """The type of a list of objects of this type."""
    return Page[type]


def controller_uid(pod: MovingPod) -> str:
    """The uid of a pod's controller; empty if it has none."""
    owner = pod.metadata.controller
    return owner.uid if owner is not None else ""
