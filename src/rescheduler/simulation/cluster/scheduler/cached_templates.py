"""Pod templates by numbers that are never reused.

The pool of the pod table reuses the numbers of templates that no pod has any more. The cache could
not count by those.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rescheduler.model.pod_templates import PodTemplate, PooledTemplate, TemplatePool
from rescheduler.model.snapshot import Int64s
from rescheduler.simulation.cluster.scheduler.plugins.nonzero_requests import (
    nonzero_asked,
    nonzero_held,
)
from rescheduler.simulation.cluster.scheduler.template_index import TemplateIndex


class ScoredRequests(NamedTuple):
    """CPU and memory that a pod counts for when nodes are scored."""

    asked: Int64s
    """For a new pod."""
    held: Int64s
    """For a pod on a node."""


class CachedTemplates:
    """The templates of a snapshot, and all that were added since."""

    def __init__(
        self,
        pool: TemplatePool,
        first: Sequence[PodTemplate],
        requests: Mapping[bytes, ScoredRequests],
    ) -> None:
        """`first` are all templates in the pool; `requests` are known already, by digest."""
        self._pool = pool
        self._seen = 0
        self._number_of: dict[bytes, int] = {}
        self.number_in_pool: Int64s = np.full(1, -1, np.int64)
        """Our number of each template by the pool's; the last entry is for rows without a pod."""
        self.index = TemplateIndex()
        self.requests: list[ScoredRequests] = []
        self.requests_by_digest: dict[bytes, ScoredRequests] = {}
        number_of = {id(template): number for number, template in enumerate(first)}
        by_number = sorted(
            self.new_templates().items(), key=lambda item: number_of[id(item[1].template)]
        )
        self.add(dict(by_number), requests)

    def new_templates(self) -> dict[bytes, PooledTemplate]:
        """Templates in the pool that are not numbered yet, by digest."""
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
        new: Mapping[bytes, PooledTemplate],
        requests: Mapping[bytes, ScoredRequests] | None = None,
    ) -> None:
        """Give new templates the next numbers, in order."""
        for digest, pooled in new.items():
            self._number_of[digest] = len(self._number_of)
            self.index.add(pooled.template)
            scored = (requests or {}).get(digest) or ScoredRequests(
                nonzero_asked(pooled), nonzero_held(pooled)
            )
            self.requests.append(scored)
            self.requests_by_digest[digest] = scored
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
