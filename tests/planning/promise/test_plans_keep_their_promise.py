"""Stop after any move of any plan: nothing is broken that was whole, and every limit is kept.

Hypothesis makes the clusters and policies, and makes those smaller for which a promise is broken.
Two processes take turns. `EXHAUSTIVE=1` tries ten times as many.
"""

import os
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.planning.promise.replay import Replay, plan_of
from tests.planning.promise.scenes import Scene

SCENES = 20_000 if os.environ.get("EXHAUSTIVE") == "1" else 2_000
PROCESSES = 2

numbers = st.integers(0, 10**6)
scenes = st.builds(
    Scene,
    nodes=st.lists(numbers, min_size=2, max_size=10).map(tuple),
    workloads=st.lists(numbers, min_size=1, max_size=14).map(tuple),
    policy=numbers,
)


def test_every_plan_keeps_every_promise() -> None:
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        failures = [each for each in pool.map(_try_many, range(PROCESSES)) if each]
    assert not failures, "\n\n".join(failures)


def _try_many(part: int) -> str:
    """What went wrong with the smallest scene found for which something does, or nothing."""
    try:
        _many(part)()
    except Exception:
        return traceback.format_exc(limit=-3)
    return ""


def _many(part: int) -> Callable[[], None]:
    @seed(part)
    @settings(
        max_examples=SCENES // PROCESSES,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(scenes)
    def keeps_its_promise(scene: Scene) -> None:
        plan = plan_of(scene)
        broken = list(Replay(scene, plan).broken_promises())
        assert not broken, f"{scene}\n{scene.arguments}\n" + "\n".join(broken[:5])

    return keeps_its_promise
