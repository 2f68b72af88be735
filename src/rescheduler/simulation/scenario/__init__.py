"""Workload files: what happens to a cluster over time, apart from the rescheduler.

`file` has every field and what it means, `times` how times are written, `reading` makes a workload
of a file or says what is wrong with it. `future` turns it into a list of timed changes before
anything runs, so that several policies can be tried on the same future. Nothing here knows how
changes are made, and nothing depends on what the cluster does meanwhile.
"""

from rescheduler.simulation.scenario.timed_changes import (
    CreateObject,
    DeleteObject,
    PatchObject,
    TimedChange,
    Timeline,
)
from rescheduler.simulation.scenario.timeline import timeline_of
from rescheduler.simulation.scenario.workload_fields import WorkloadFile
from rescheduler.simulation.scenario.workload_file import read_workload

__all__ = [
    "CreateObject",
    "DeleteObject",
    "PatchObject",
    "TimedChange",
    "Timeline",
    "WorkloadFile",
    "read_workload",
    "timeline_of",
]
