"""Reads the status of a cluster: from the API server, and from the leader if it can be reached.

Everything is read with the rights of whoever asks. What cannot be read becomes a note, and the rest
is shown all the same.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rescheduler.controller.leader_election.lease_object import LEASE, Lease
from rescheduler.errors import ApiError, Forbidden, NotFound, ReschedulerError
from rescheduler.kube.api_server import object_path
from rescheduler.kube.backoff import Backoff
from rescheduler.kube.client import Client
from rescheduler.kube.listwatch import ListWatch, WatchSettings
from rescheduler.kube.live_store import cancel
from rescheduler.migration.memory.move_record import MOVE_RECORD, MoveRecord, record_of
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.status.cluster_load import node_summary, reservation_summary
from rescheduler.status.leader_endpoint import (
    PodEndpoint,
    ask_address,
    ask_pod,
    find_any_endpoint,
    find_endpoint,
    pod_of,
)
from rescheduler.status.migration_report import migration_summary, recent_outcomes
from rescheduler.status.reasons import ViewReason
from rescheduler.status.status_document import (
    VERSION,
    ClusterStatus,
    LeaseState,
    NodeSummary,
    Note,
    ReplicaStatus,
    ReservationSummary,
    Role,
    cut,
)

# A lease that was not renewed for so many of its durations is not being renewed.
EXPIRED_AFTER = 2
# For the first lists, when the screen is to be drawn again and again.
FIRST_LIST_SECONDS = 5.0
# Somebody looks at the screen, and wants to see that the server is back.
SETTINGS = WatchSettings(backoff=Backoff(first_seconds=0.5, limit_seconds=5.0))
REFUTED_BY = {
    Role.LEADER: {ViewReason.NO_LEASE},
    Role.STANDBY: {ViewReason.NO_LEASE},
    # Nobody is elected, so a Lease can only be that of an earlier installation.
    Role.PLANNER: {ViewReason.NO_LEASE, ViewReason.NOBODY_LEADS, ViewReason.LEASE_EXPIRED},
    Role.EXTENDER: set(),
}
"""By the role of a replica that has answered: what the Lease seems to say, and is not so."""
INSTALL_CRDS = "rescheduler crds | kubectl apply -f -"


@dataclass(frozen=True)
class StatusSource:
    """Where to look."""

    leases: tuple[str, ...]
    """The Leases that the leader may hold; the first that exists counts."""
    url: str = ""
    """The address of a replica; empty to find the leader's pod."""
    pod_labels: str = ""
    """The labels of our pods: one of them is asked if nobody leads."""


class StatusReader:
    """Reads the status once, or again and again inside of `following`."""

    def __init__(self, server: Client, source: StatusSource) -> None:
        self._server = server
        self._source = source
        self._tables = ClusterTables()
        self._migrations: ObjectTable[Migration] = ObjectTable(MIGRATION)
        self._records: ObjectTable[MoveRecord] = ObjectTable(MOVE_RECORD)
        self._moves: list[ListWatch[Any]] = [
            ListWatch(server, self._migrations, SETTINGS),
            ListWatch(server, self._records, SETTINGS),
        ]
        self._load: list[ListWatch[Any]] = [
            ListWatch(server, self._tables.nodes, SETTINGS),
            ListWatch(server, self._tables.pods, SETTINGS),
        ]
        self._lease: tuple[str, Lease] | None = None
        """The Lease that was read last, with its key."""
        self._tasks: dict[ListWatch[Any], asyncio.Task[None]] = {}
        self._follows = False

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Inside, kinds are watched rather than listed each time."""
        self._follows = True
        try:
            yield
        finally:
            await cancel(list(self._tasks.values()))

    async def read(self) -> ClusterStatus:
        """The status now. `ReschedulerError` if there is nothing at all to show."""
        notes: list[Note] = []
        lease = await self._read_lease(notes)
        replica, source = await self._ask_replica(lease, notes)
        await self._refresh(self._moves, notes)
        nodes, reservations = await self._read_load(replica, notes)
        now, knows_migrations = self._server.server_clock.now(), self._moves[0].synced
        migrations = self._migrations.by_key().values()
        return ClusterStatus(
            version=VERSION,
            time=now,
            lease=lease,
            replica=replica,
            source=source,
            migrations=migration_summary(migrations, now) if knows_migrations else None,
            outcomes=self._outcomes(now) if knows_migrations else None,
            nodes=nodes,
            reservations=reservations,
            notes=distinct(notes),
        )

    async def _read_load(
        self, replica: ReplicaStatus | None, notes: list[Note]
    ) -> tuple[NodeSummary | None, ReservationSummary | None]:
        """The load of nodes, from a replica that knows it: reading all pods is a lot of work."""
        if replica is not None and replica.sync.is_loaded:
            return replica.nodes, replica.reservations
        await self._refresh(self._load, notes)
        if not all(watch.synced for watch in self._load):
            return None, None
        return node_summary(self._tables), reservation_summary(self._tables)

    def _outcomes(self, now: datetime) -> dict[str, int]:
        ended = (record_of(migration) for migration in self._migrations.by_key().values())
        found = {record.name: record for record in ended if record is not None}
        return recent_outcomes((found | self._records.by_key()).values(), now)

    # ------------------------------------------------------------ the leader

    async def _read_lease(self, notes: list[Note]) -> LeaseState | None:
        """Who leads, by the first Lease that exists and may be read."""
        refused: Forbidden | None = None
        for key in self._source.leases:
            try:
                found = await self._server.get(object_path(LEASE, key), Lease)
            except NotFound:
                continue
            except Forbidden as error:
                # Whoever may read the other one may not know whether this one exists.
                refused = refused or error
                continue
            except ApiError as error:
                if not self._follows and not self._source.url:
                    # Nothing else will be answered either.
                    raise
                notes.append(unread("the Lease", error))
                return None if self._lease is None else self._lease_state(*self._lease)
            self._lease = key, found
            state = self._lease_state(key, found)
            if (note := lease_note(state, found)) is not None:
                notes.append(note)
                # Then the other one may be that of the leader.
                notes += [] if refused is None else [unread("the Lease", refused)]
            return state
        if refused is not None:
            notes.append(unread("the Lease", refused))
            return None if self._lease is None else self._lease_state(*self._lease)
        self._lease = None
        if not self._source.url:
            tried = " or ".join(self._source.leases)
            notes.append(
                Note(
                    ViewReason.NO_LEASE,
                    f"There is no Lease {tried}: no controller with leader election runs here. "
                    "If one runs without, give its address with --url.",
                )
            )
        return None

    def _lease_state(self, key: str, lease: Lease) -> LeaseState:
        spec = lease.spec
        age = seconds_since(spec.renew_time, self._server.server_clock.now())
        return LeaseState(key, spec.leader, age, spec.lease_transitions)

    async def _ask_replica(
        self, lease: LeaseState | None, notes: list[Note]
    ) -> tuple[ReplicaStatus | None, str]:
        """The leader's own status and how it was reached; None with a note if it was not."""
        answer: ReplicaStatus | Note | None = None
        source = self._source.url
        if source:
            answer = await ask_address(source)
        elif lease is not None and lease.holder and not is_over(notes):
            answer, source = await self._ask_leader(lease)
        elif self._source.pod_labels:
            answer, source = await self._ask_any(lease)
        if answer is None:
            return None, ""
        if isinstance(answer, Note):
            if self._source.url and answer.reason == ViewReason.NOT_REACHED and lease is not None:
                # The pod behind a port-forward may be gone.
                way = await self._way_to(lease.holder, lease.key)
                answer = Note(answer.reason, f"{answer.sentence}{way}")
            notes.append(answer)
            return None, ""
        notes[:] = [note for note in notes if note.reason not in REFUTED_BY[answer.role]]
        if answer.role == Role.STANDBY:
            asked, who = answer.replica or "It", answer.leader or "nobody that it knows of"
            way = await self._way_to(answer.leader, answer.lease)
            sentence = f"{asked} does not lead; {who} does.{way}"
            notes.append(Note(ViewReason.STANDBY_ANSWERED, sentence))
        return answer, source

    async def _ask_leader(self, lease: LeaseState) -> tuple[ReplicaStatus | Note, str]:
        pod = pod_of(lease.holder, lease.key)
        if pod is None:
            why = f"The leader {lease.holder} is no pod. If you can reach it, use --url."
            return Note(ViewReason.LEADER_IS_NO_POD, why), ""
        endpoint = await find_endpoint(self._server, pod)
        if isinstance(endpoint, Note):
            return endpoint, ""
        return await ask_pod(self._server, endpoint), endpoint.path

    async def _ask_any(self, lease: LeaseState | None) -> tuple[ReplicaStatus | Note | None, str]:
        """Ask a replica although none leads: it may still load the cluster, or be a dry run."""
        key = self._source.leases[0] if lease is None else lease.key
        endpoint = await find_any_endpoint(
            self._server, key.partition("/")[0], self._source.pod_labels
        )
        if endpoint is None:
            return None, ""
        return await ask_pod(self._server, endpoint), endpoint.path

    async def _way_to(self, holder: str, lease: str) -> str:
        """How a person reaches the holder of a Lease; empty if that is not known."""
        pod = pod_of(holder, lease)
        endpoint = None if pod is None else await find_endpoint(self._server, pod)
        return f" {endpoint.by_port_forward}" if isinstance(endpoint, PodEndpoint) else ""

    # ------------------------------------------------------------ what the API server has

    async def _refresh(self, watches: Sequence[ListWatch[Any]], notes: list[Note]) -> None:
        for watch in watches:
            if self._follows:
                await self._follow(watch, notes)
            else:
                await self._list(watch, notes)

    async def _list(self, watch: ListWatch[Any], notes: list[Note]) -> None:
        if any(note.reason == ViewReason.API_SERVER_UNAVAILABLE for note in notes):
            # It would be waited for again, and somebody waits for what is known.
            return
        try:
            await watch.list()
        except ReschedulerError as error:
            notes.append(unread(watch.kind.plural, error))

    async def _follow(self, watch: ListWatch[Any], notes: list[Note]) -> None:
        if watch not in self._tasks:
            self._tasks[watch] = asyncio.create_task(watch.run())
            with suppress(TimeoutError, ReschedulerError):
                async with asyncio.timeout(FIRST_LIST_SECONDS):
                    await watch.wait_synced()
        if watch.last_error is not None:
            notes.append(unread(watch.kind.plural, watch.last_error))


def lease_note(state: LeaseState, lease: Lease) -> Note | None:
    """That nobody leads, by a Lease that was just read; None if somebody does."""
    key, age = state.key, state.renewed_seconds_ago
    if not state.holder:
        return Note(
            ViewReason.NOBODY_LEADS,
            f"Nobody holds the Lease {key}, so nothing is planned or moved.",
        )
    if age is not None and age > EXPIRED_AFTER * lease.spec.lease_duration_seconds:
        return Note(
            ViewReason.LEASE_EXPIRED,
            f"{state.holder} has not renewed the Lease {key} for {age:.0f} s: "
            "it does not run, or does not reach the API server.",
        )
    return None


def unread(what: str, error: ReschedulerError) -> Note:
    """Why something is not shown, or may be old."""
    answer = error.answer if isinstance(error, ApiError) else str(error)
    if isinstance(error, NotFound):
        missing = (
            "MoveRecords, so past moves are not shown or remembered"
            if what == MOVE_RECORD.plural
            else "Migrations, so nothing can be moved"
        )
        return Note(
            ViewReason.CRD_MISSING,
            f"The API server does not know {missing}. "
            f"Install the CustomResourceDefinitions: {INSTALL_CRDS}",
        )
    if isinstance(error, Forbidden):
        return Note(ViewReason.RIGHT_MISSING, cut(f"You may not read {what}: {answer}"))
    return Note(ViewReason.API_SERVER_UNAVAILABLE, cut(f"The API server does not answer: {answer}"))


def distinct(notes: Sequence[Note]) -> tuple[Note, ...]:
    """The notes without those that say the same: a server that is away fails every call."""
    away = ViewReason.API_SERVER_UNAVAILABLE
    found = {note.reason if note.reason == away else note: note for note in reversed(notes)}
    return tuple(reversed(found.values()))


def is_over(notes: Sequence[Note]) -> bool:
    """Whether the holder has not renewed its Lease, so that asking it is no use."""
    return any(note.reason == ViewReason.LEASE_EXPIRED for note in notes)


def seconds_since(text: str, now: datetime) -> float | None:
    """How long ago a time in a Lease was; None if there is none. Clocks may differ."""
    try:
        return max(0.0, (now - datetime.fromisoformat(text)) / timedelta(seconds=1))
    except (ValueError, TypeError):
        return None
