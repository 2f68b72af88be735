"""Workload files: what happens to a cluster over time, apart from the rescheduler.

`file` has every field and what it means, `times` how times are written, `reading` makes a workload
of a file or says what is wrong with it. `future` turns it into a list of timed changes before
anything runs, so that several policies can be tried on the same future. Nothing here knows how
changes are made, and nothing depends on what the cluster does meanwhile.
"""

from rescheduler.simulation.workload.changes import Change, Create, Delete, Future, Patch
from rescheduler.simulation.workload.file import Workload
from rescheduler.simulation.workload.future import future_of
from rescheduler.simulation.workload.reading import read_workload

__all__ = [
    "Change",
    "Create",
    "Delete",
    "Future",
    "Patch",
    "Workload",
    "future_of",
    "read_workload",
]
