"""Which migrations want to hear of which objects."""

from collections import defaultdict
from collections.abc import Iterable, Set

from rescheduler.migration.migration_object import Migration, Phase, Step
from rescheduler.migration.new_pod import new_pod_name
from rescheduler.migration.state_machine.observation import Observation

WatchKey = tuple[str, str]
"""A kind of object and its key; or a kind of place and its name."""

MARKED_POD, ANY_POD, POD_IN = "MarkedPod", "Pod", "PodIn"
BUDGET_IN = "PodDisruptionBudgetIn"


class WatchIndex:
    """Things, and who waits for them to change."""

    def __init__(self) -> None:
        self._of_key: dict[str, Set[WatchKey]] = {}
        # Not a set: those who wait are told in the order they came, the same in every process.
        self._keys_by_thing: defaultdict[WatchKey, dict[str, None]] = defaultdict(dict)

    def set(self, key: str, things: Iterable[WatchKey]) -> None:
        """What a migration is interested in from now on."""
        wanted = frozenset(things)
        had = self._of_key.get(key, frozenset())
        for thing in had - wanted:
            self._drop(thing, key)
        for thing in wanted - had:
            self._keys_by_thing[thing][key] = None
        self._of_key[key] = wanted

    def forget(self, key: str) -> None:
        """It is gone."""
        for thing in self._of_key.pop(key, frozenset()):
            self._drop(thing, key)

    def in_thing(self, kind: str, key: str) -> list[str]:
        """Who wants to hear of it."""
        return list(self._keys_by_thing.get((kind, key), ()))

    def _drop(self, thing: WatchKey, key: str) -> None:
        keys = self._keys_by_thing[thing]
        keys.pop(key, None)
        if not keys:
            del self._keys_by_thing[thing]


def watch_keys_of(o: Observation) -> list[WatchKey]:
    """What can change the next decision about a migration.

    Pods of a migration in progress are marked and have a watch of their own. All other pods are
    only of interest before that, and after an eviction.
    """
    migration = o.migration
    if migration.is_finished:
        return []
    namespace = migration.metadata.namespace
    things = [
        (MARKED_POD, migration.pod_key),
        ("Node", migration.spec.target_node),
        (BUDGET_IN, namespace),
    ]
    if name := new_pod_name(migration):
        things.append((MARKED_POD, f"{namespace}/{name}"))
    if migration.status.phase == Phase.PENDING:
        things.append((ANY_POD, migration.pod_key))
    if migration.status.step == Step.LANDING:
        things.append((POD_IN, namespace))
    return things + workload_watch_keys(o, migration)


def workload_watch_keys(o: Observation, migration: Migration) -> list[WatchKey]:
    """The workload and the Deployment above it."""
    if o.workload is None:
        return []
    namespace = migration.metadata.namespace
    things = [(o.workload.kind, f"{namespace}/{o.workload.owner.metadata.name}")]
    if o.workload.deployment is not None:
        things.append(("Deployment", f"{namespace}/{o.workload.deployment.metadata.name}"))
    return things
