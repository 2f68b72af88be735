"""How long things take in the simulated cluster."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class RandomSeconds:
    """A duration that varies at random."""

    seconds: float
    jitter: float = 0.0
    """The largest deviation, as a fraction of `seconds`."""

    def draw(self, chance: Random) -> float:
        """A random duration in seconds."""
        return self.seconds * (1 + self.jitter * (2 * chance.random() - 1))


@dataclass(frozen=True)
class Timings:
    """How long each thing takes; random durations follow from the seed."""

    ready: RandomSeconds = RandomSeconds(8.0, 0.5)
    """From being bound to being Ready: pulling the image, starting, the first probes."""
    stop: RandomSeconds = RandomSeconds(3.0, 0.5)
    """From the deletion timestamp to the removal; never more than the grace period."""
    run: RandomSeconds = RandomSeconds(300.0, 0.5)
    """How long a pod of a Job runs, unless its annotation says it."""
    scheduling: RandomSeconds = RandomSeconds(0.2, 0.5)
    """Until the scheduler looks at a pending pod, and at all others that are pending then."""
    reaction: float = 0.02
    """Until a controller reacts to a change."""
    node_eviction: float = 300.0
    """How long pods stay on a node that is not ready, unless they tolerate another time."""
    node_gone: float = 40.0
    """Until the pods of a deleted node are removed."""
