"""Acquires the Lease, renews it while we lead, and releases it when all writes have ended."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import msgspec

from rescheduler.controller.leader_election.lease_fence import LeaseFence, lease_clock
from rescheduler.controller.leader_election.lease_object import (
    LEASE,
    UNKNOWN_HOLDER,
    Lease,
    claim,
    new_lease,
    release,
)
from rescheduler.controller.leader_election.lease_timing import (
    HeldLease,
    LeaseDurations,
    ObservedLease,
)
from rescheduler.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    ReschedulerError,
    SettingsError,
)
from rescheduler.kube.api_server import Answer, ApiServer, collection_path, object_path
from rescheduler.kube.clock import WALL_CLOCK, Clock

logger = logging.getLogger(__name__)

# Replicas that started together do not ask together for ever.
JITTER = 0.1
# After a conflict: another look, and not at once in case somebody keeps changing the Lease.
CONFLICT_SECONDS = 0.1


@dataclass(frozen=True)
class LeaseOptions:
    """Which Lease, as whom, and for how long."""

    key: str
    """`namespace/name` of the Lease."""
    identity: str
    """Of this process alone: two with the same one would both lead."""
    durations: LeaseDurations = field(default_factory=LeaseDurations)
    preferred_key: str | None = None
    """Of another Lease, which is taken instead if it exists."""


class LeaderElector:
    """Competes for a Lease: `acquire`, `keep` while leading, `release`."""

    def __init__(
        self,
        server: ApiServer,
        options: LeaseOptions,
        *,
        clock: Clock = WALL_CLOCK,
        seconds: Callable[[], float] = lease_clock,
        chance: Random | None = None,
    ) -> None:
        """`server` has connections of its own: renewals wait for no other calls."""
        self.fence = LeaseFence(seconds)
        self._server = server
        self._options = options
        self._durations = options.durations
        self._clock = clock
        self._seconds = seconds
        self._chance = chance or Random()
        self._key = options.key
        self._key_is_chosen = options.preferred_key is None
        self._lease: Lease | None = None
        """The Lease as we last read or wrote it; None if somebody may have changed it."""
        self._observed: ObservedLease | None = None
        self._logged_holder: str | None = None
        self._was_answered = False
        self._may_hold = False
        """Whether we have ever tried to write our name into the Lease."""

    @property
    def lease_key(self) -> str:
        """`namespace/name` of the Lease."""
        return self._key

    @property
    def identity(self) -> str:
        """Our name in the Lease."""
        return self._options.identity

    @property
    def leader(self) -> str:
        """Who held the Lease when we last looked; empty if nobody did, or we have not looked."""
        if self.fence.held is not None:
            return self.identity
        return "" if self._observed is None else self._observed.spec.leader

    @property
    def _path(self) -> str:
        return object_path(LEASE, self._key)

    # ------------------------------------------------------------ acquiring

    async def acquire(self) -> None:
        """Return when we hold the Lease. A right that is missing from the start is an error."""
        while True:
            if await self._tries_to_acquire():
                logger.info("Became the leader", extra=self._names())
                return
            await asyncio.sleep(self._jittered(self._durations.retry_seconds))

    async def _tries_to_acquire(self) -> bool:
        try:
            is_held = await self._try_to_acquire()
        except (Conflict, NotFound):
            # Another replica was faster, or somebody has just deleted it.
            return False
        except ReschedulerError as error:
            if not self._was_answered and isinstance(error, Forbidden):
                raise self._missing_right(error) from error
            if not self._was_answered and isinstance(error, SettingsError):
                raise
            self._log_failure("Failed to acquire the lease", error)
            return False
        self._was_answered = True
        return is_held

    async def _try_to_acquire(self) -> bool:
        """Take the Lease over, if nobody else holds it; create it, if there is none."""
        if not self._key_is_chosen:
            await self._choose_key()
        asked_at = self._seconds()
        options, seconds = self._options, self._durations.lease_seconds
        try:
            lease = await self._server.get(self._path, Lease)
        except NotFound:
            lease = await self._create()
        observed = self._observed or ObservedLease(lease.spec, self._seconds())
        self._observed = observed.seen_again(lease.spec, self._seconds())
        # By the time before it was read: what its holder did meanwhile is not known.
        if not self._observed.may_be_taken(options.identity, asked_at, seconds):
            self._log_holder(lease.spec.holder_identity)
            return False
        await self._claim(lease)
        return True

    async def _choose_key(self) -> None:
        """Take the preferred Lease if it exists. Only an answer of the server tells."""
        preferred = self._options.preferred_key
        assert preferred is not None, "there is a choice"
        try:
            await self._server.get(object_path(LEASE, preferred), Lease)
        except (NotFound, Forbidden):
            pass
        else:
            self._key = preferred
        self._key_is_chosen = True

    async def _create(self) -> Lease:
        """Create the Lease. A replica that is faster causes a conflict."""
        namespace = self._key.partition("/")[0]
        body = new_lease(self._key, self._durations.lease_seconds, self._clock.now())
        try:
            answer = await self._server.create(collection_path(LEASE, namespace), body)
        except NotFound as error:
            raise SettingsError(
                f"Lease {self._key}: namespace {namespace}: expected one that exists "
                f"({error.answer})"
            ) from error
        logger.info("Created the lease", extra=self._names())
        return self._decoded(answer)

    async def _claim(self, lease: Lease) -> None:
        """Write ourselves into this version of the Lease."""
        seconds = self._durations.lease_seconds
        patch = claim(lease, self._options.identity, seconds, self._clock.now())
        self._may_hold = True
        sent_at = self._seconds()
        self._hold(await self._server.patch(self._path, patch), sent_at)

    def _hold(self, answer: Answer, sent_at: float) -> None:
        self._lease = self._decoded(answer)
        self._observed = self._logged_holder = None
        self.fence.held = HeldLease(sent_at, self._durations)

    def _decoded(self, answer: Answer) -> Lease:
        try:
            return answer.decode(Lease)
        except msgspec.DecodeError as error:
            raise OutcomeUnknown(self._path, f"the answer is no Lease: {error}") from error

    # ------------------------------------------------------------ keeping

    async def keep(self) -> None:
        """Renew the Lease until it is lost; then nothing passes the fence any more."""
        try:
            why = await self._renew_until_lost()
        finally:
            self.fence.held = None
        logger.warning("Lost the lease", extra={**self._names(), "why": why})

    async def _renew_until_lost(self) -> str:
        """Why it is lost in the end."""
        wait_seconds = self._durations.retry_seconds
        while (left := self._seconds_left()) > 0:
            await asyncio.sleep(min(self._jittered(wait_seconds), left))
            wait_seconds = self._durations.retry_seconds
            if (left := self._seconds_left()) <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    holder = await self._renew()
            except Conflict:
                self._lease, wait_seconds = None, CONFLICT_SECONDS
            except NotFound:
                return "the Lease was deleted"
            except (ReschedulerError, TimeoutError) as error:
                # It may have been renewed; what is there now has to be read first.
                self._lease = None
                self._log_failure("Failed to renew the lease", error)
            else:
                if holder != self._options.identity:
                    return f"it is held by {holder or 'nobody'}"
        return f"not renewed for {self._durations.renew_seconds:g} s"

    async def _renew(self) -> str:
        """Renew the Lease, if it is still ours; who holds it."""
        lease = await self._newest()
        if lease.spec.holder_identity == self._options.identity:
            await self._claim(lease)
        return lease.spec.holder_identity

    def _seconds_left(self) -> float:
        held = self.fence.held
        assert held is not None, "only a leader renews"
        return held.leads_until - self._seconds()

    # ------------------------------------------------------------ releasing

    async def release(self) -> None:
        """Give up the Lease, so that another replica leads at once.

        Nothing may be written any more. A write that was sent and not answered may still have an
        effect: the Lease is then left to expire.
        """
        self.fence.held = None
        if not self._may_hold:
            return
        if self.fence.has_unanswered_writes():
            why = "a write that was not answered may still have an effect"
            logger.info("Left the lease to expire", extra={**self._names(), "why": why})
            return
        try:
            try:
                await self._release()
            except Conflict:
                # By our own renewal, which was still on its way.
                self._lease = None
                await self._release()
        except ReschedulerError as error:
            self._log_failure("Failed to release the lease", error)

    async def _release(self) -> None:
        lease = await self._newest()
        if lease.spec.holder_identity == self._options.identity:
            await self._server.patch(self._path, release(lease, self._clock.now()))
            logger.info("Released the lease", extra=self._names())

    async def _newest(self) -> Lease:
        if self._lease is None:
            return await self._server.get(self._path, Lease)
        return self._lease

    # ------------------------------------------------------------ for people

    def _missing_right(self, error: ApiError) -> SettingsError:
        namespace = self._key.partition("/")[0]
        return SettingsError(
            f"Lease {self._key}: a right is missing ({error.answer}). Grant get, create "
            f"and patch of leases in coordination.k8s.io in namespace {namespace}, name another "
            "namespace with --leader-election-lease, or run a single replica with "
            "--no-leader-election"
        )

    def _log_holder(self, holder: str) -> None:
        if holder != self._logged_holder:
            self._logged_holder = holder
            why = "another replica leads; with --no-leader-election this one would not wait"
            if holder == UNKNOWN_HOLDER:
                why = "the Lease is new: a leader whose Lease was deleted has stopped when it ends"
            extra = {**self._names(), "holder": holder, "why": why}
            logger.info("Waiting for the lease", extra=extra)

    def _log_failure(self, message: str, error: Exception) -> None:
        text = str(error) or "timed out"
        logger.warning(message, extra={**self._names(), "error": text})

    def _names(self) -> dict[str, object]:
        return {"lease": self._key, "identity": self._options.identity}

    def _jittered(self, seconds: float) -> float:
        return seconds * self._chance.uniform(1 - JITTER, 1)
