"""How long things take in the cluster in memory."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class RandomSeconds:
    """Seconds: about so many, more or less."""

    seconds: float
    jitter: float = 0.0
    """The most by which a draw differs from it, as a fraction of it."""

    def draw(self, chance: Random) -> float:
        """One such time."""
        return self.seconds * (1 + self.jitter * (2 * chance.random() - 1))


@dataclass(frozen=True)
class Timings:
    """How long each thing takes; what varies is drawn from the seed."""

    ready: RandomSeconds = RandomSeconds(8.0, 0.5)
    """From being bound to being Ready: pulling the image, starting, the first probes."""
    stop: RandomSeconds = RandomSeconds(3.0, 0.5)
    """From being told to stop to being gone; never more than the grace period."""
    run: RandomSeconds = RandomSeconds(300.0, 0.5)
    """How long a pod runs that runs to an end, unless its own annotation says so."""
    scheduling: RandomSeconds = RandomSeconds(0.2, 0.5)
    """Until the scheduler takes up a pod that waits. What comes meanwhile is placed with it."""
    reaction: float = 0.02
    """Until a controller has seen a change and acts on it."""
    node_eviction: float = 300.0
    """How long pods stay on a node that is not ready, unless they tolerate it for another time."""
    node_gone: float = 40.0
    """Until the pods of a node that no longer exists are removed."""
