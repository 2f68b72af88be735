"""Clusters in files, as plain objects: what a simulation starts from."""

from collections.abc import Iterable

from rescheduler.files.cluster_file import FileObject, read_objects
from rescheduler.model.kinds import SERVICE
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.scenario.object_validation import simulation_problem


def objects_in(files: Iterable[tuple[str, bytes]]) -> list[Json]:
    """The objects in files as `rescheduler plan` takes them, and Services.

    Plans do not need Services, but the scheduler spreads the pods behind one. Raises
    `SnapshotError` for what cannot be planned for, and for what no controller could run.
    """
    return [_checked(obj) for obj in read_objects(files, [SERVICE])]


def _checked(obj: FileObject) -> Json:
    plain = obj.plain()
    if (problem := simulation_problem(plain)) is not None:
        raise obj.error(problem)
    return plain
