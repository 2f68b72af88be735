"""HiGHS, set up the same way everywhere: quiet, on one thread, and stopped when time is up."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Floats

if TYPE_CHECKING:
    import highspy

INFINITY = float("inf")

Indices = npt.NDArray[np.int32]


class SparseColumns:
    """Entries of the columns of a matrix, as HiGHS takes them: column by column."""

    def __init__(self, count: int, column: npt.ArrayLike, row: npt.ArrayLike, value: npt.ArrayLike):
        columns = np.asarray(column)
        order = np.argsort(columns, kind="stable")
        self.start: Indices = np.searchsorted(columns[order], np.arange(count)).astype(np.int32)
        self.row: Indices = np.asarray(row)[order].astype(np.int32)
        self.value: Floats = np.asarray(value)[order].astype(np.float64)


def new_solver(out_of_time: Callable[[], bool] | None = None) -> "highspy.Highs":
    """A solver without a problem. Imported here: not every plan needs its 11 MB."""
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    if out_of_time is None:
        return solver

    def interrupt(event: "highspy.highs.HighsCallbackEvent") -> None:
        if out_of_time():
            event.interrupt()

    solver.cbSimplexInterrupt.subscribe(interrupt)
    return solver
