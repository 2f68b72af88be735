"""Templates by numbers that are never given away again.

The pool of the pod table reuses the numbers of templates that no pod has any more. Counts kept by
those would mix up what has nothing to do with each other.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rescheduler.model.pod_templates import PodTemplate, PooledTemplate, TemplatePool
from rescheduler.model.snapshot import Amounts
from rescheduler.simulation.cluster.scheduler.plugins.nonzero_requests import (
    nonzero_asked,
    nonzero_held,
)
from rescheduler.simulation.cluster.scheduler.template_index import TemplateIndex


class ScoredRequests(NamedTuple):
    """CPU and memory that a pod is taken to use when nodes are scored."""

    asked: Amounts
    """By a new pod."""
    held: Amounts
    """By a pod on a node."""


class CachedTemplates:
    """The templates of a snapshot, and all that have come since."""

    def __init__(
        self, pool: TemplatePool, first: Sequence[PodTemplate], uses: Mapping[bytes, ScoredRequests]
    ) -> None:
        """`first` are all templates in the pool; what is known of their use is not found anew."""
        self._pool = pool
        self._seen = 0
        self._number_of: dict[bytes, int] = {}
        self.number_in_pool: Amounts = np.full(1, -1, np.int64)
        """Our number of each template by the pool's; the last is for rows without a pod."""
        self.index = TemplateIndex()
        self.uses: list[ScoredRequests] = []
        self.uses_by_digest: dict[bytes, ScoredRequests] = {}
        number_of = {id(each): number for number, each in enumerate(first)}
        found = self.newcomers()
        by_number = sorted(found.items(), key=lambda item: number_of[id(item[1].template)])
        self.add(dict(by_number), uses)

    def newcomers(self) -> dict[bytes, PooledTemplate]:
        """Templates in the pool that were not there before, by their digests."""
        if self._pool.added == self._seen:
            return {}
        found = {}
        for number in self._pool.added_since(self._seen):
            digest = self._pool.digest(number)
            if digest is not None and digest not in self._number_of:
                found[digest] = self._pool[number]
        return found

    def add(
        self,
        newcomers: Mapping[bytes, PooledTemplate],
        uses: Mapping[bytes, ScoredRequests] | None = None,
    ) -> None:
        """Give the newcomers the next numbers, in order."""
        for digest, pooled in newcomers.items():
            self._number_of[digest] = len(self._number_of)
            self.index.add(pooled.template)
            use = (uses or {}).get(digest) or ScoredRequests(
                nonzero_asked(pooled), nonzero_held(pooled)
            )
            self.uses.append(use)
            self.uses_by_digest[digest] = use
        self._map_pool()

    def _map_pool(self) -> None:
        if self._pool.added == self._seen:
            return
        added = self._pool.added_since(self._seen)
        self._seen = self._pool.added
        missing = max(added, default=-1) + 2 - len(self.number_in_pool)
        if missing > 0:
            self.number_in_pool = np.append(self.number_in_pool, np.full(missing, -1))
        for number in added:
            digest = self._pool.digest(number)
            if digest is not None:
                self.number_in_pool[number] = self._number_of[digest]
        self.number_in_pool[-1] = -1
