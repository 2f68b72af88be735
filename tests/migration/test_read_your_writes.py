"""Our own writes count at once, before a watch shows them."""

from rescheduler.labels import MIGRATION_STATUS
from rescheduler.migration.migration_labels import is_in_progress
from rescheduler.migration.moving_pod import LABELLED_POD, MovingPod, PodMeta
from rescheduler.migration.read_your_writes import TRUSTED_SECONDS, ReadYourWrites
from rescheduler.model.tables.object_table import ObjectTable


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def pod(version: int, status: str = "in-progress") -> MovingPod:
    return MovingPod(
        PodMeta(
            name="web-1",
            namespace="shop",
            uid="new",
            resource_version=str(version),
            labels={MIGRATION_STATUS: status},
        )
    )


def test_a_write_is_known_until_the_watch_shows_it_or_for_ten_seconds() -> None:
    table, clock = ObjectTable(LABELLED_POD), Clock()
    pods = ReadYourWrites(table, is_in_progress, clock)
    table.put(pod(1))
    pods.record(pod(2))
    assert pods.get("shop/web-1") == pod(2)
    table.put(pod(3))
    assert pods.get("shop/web-1") == pod(3)
    pods.record(pod(4))
    clock.seconds = TRUSTED_SECONDS + 1
    assert pods.get("shop/web-1") == pod(3)


def test_a_pod_that_our_write_has_taken_out_of_the_watch_is_unknown() -> None:
    """The server is asked about what is unknown. What the watch still shows is out of date."""
    table, clock = ObjectTable(LABELLED_POD), Clock()
    pods = ReadYourWrites(table, is_in_progress, clock)
    table.put(pod(1))
    pods.record(pod(2, "completed"))
    assert pods.get("shop/web-1") is None
    for change in table.remove(pod(2, "completed")):
        pods.observe(change)
    assert pods.get("shop/web-1") is None
