"""Which migrations must be reconciled when an object changes."""

from collections import defaultdict
from collections.abc import Iterable, Set

from rescheduler.migration.migration_object import Migration, Phase, Step
from rescheduler.migration.new_pod import new_pod_name
from rescheduler.migration.state_machine.observation import Observation

WatchKey = tuple[str, str]
"""A kind and the key of an object; or one of the constants below and a key, namespace or uid."""

LABELLED_POD, ANY_POD, POD_OF_OWNER = "LabelledPod", "Pod", "PodOfOwner"
BUDGET_IN_NAMESPACE = "PodDisruptionBudgetInNamespace"


class WatchIndex:
    """Finds migrations by the objects that their next decision depends on."""

    def __init__(self) -> None:
        self._watch_keys: dict[str, Set[WatchKey]] = {}
        # Dicts, not sets: the order in which migrations are found is the same in every process.
        self._migrations: defaultdict[WatchKey, dict[str, None]] = defaultdict(dict)

    def set(self, migration: str, watch_keys: Iterable[WatchKey]) -> None:
        """Set what a migration depends on from now on."""
        wanted = frozenset(watch_keys)
        previous = self._watch_keys.get(migration, frozenset())
        for watch_key in previous - wanted:
            self._drop(watch_key, migration)
        for watch_key in wanted - previous:
            self._migrations[watch_key][migration] = None
        self._watch_keys[migration] = wanted

    def remove(self, migration: str) -> None:
        """Drop a migration that was deleted."""
        for watch_key in self._watch_keys.pop(migration, frozenset()):
            self._drop(watch_key, migration)

    def migrations_watching(self, kind: str, key: str) -> list[str]:
        """The keys of the migrations that depend on an object."""
        return list(self._migrations.get((kind, key), ()))

    def _drop(self, watch_key: WatchKey, migration: str) -> None:
        migrations = self._migrations[watch_key]
        migrations.pop(migration, None)
        if not migrations:
            del self._migrations[watch_key]


def watch_keys_of(o: Observation) -> list[WatchKey]:
    """The objects that the next decision about a migration depends on.

    Pods of a migration in progress are labelled and have a watch of their own. Other pods matter
    only before that, after an eviction, and for a look at the target before a gate is opened.
    """
    migration = o.migration
    if migration.is_finished:
        return []
    namespace = migration.metadata.namespace
    watch_keys = [
        (LABELLED_POD, migration.pod_key),
        ("Node", migration.spec.target_node),
        (BUDGET_IN_NAMESPACE, namespace),
    ]
    if name := new_pod_name(migration):
        watch_keys.append((LABELLED_POD, f"{namespace}/{name}"))
    if o.new is not None and o.new.is_gated_by_us:
        watch_keys.append((ANY_POD, o.new.key))
    if migration.status.phase == Phase.PENDING:
        watch_keys.append((ANY_POD, migration.pod_key))
    workload = migration.status.workload
    if migration.status.step == Step.LANDING and workload is not None:
        watch_keys.append((POD_OF_OWNER, workload.uid))
    return watch_keys + workload_watch_keys(o, migration)


def workload_watch_keys(o: Observation, migration: Migration) -> list[WatchKey]:
    """The workload, and the Deployment that owns it."""
    if o.workload is None:
        return []
    namespace = migration.metadata.namespace
    watch_keys = [(o.workload.kind, f"{namespace}/{o.workload.owner.metadata.name}")]
    if o.workload.deployment is not None:
        watch_keys.append(("Deployment", f"{namespace}/{o.workload.deployment.metadata.name}"))
    return watch_keys
