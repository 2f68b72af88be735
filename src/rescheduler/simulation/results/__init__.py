"""What was seen in a simulation: series over time, counts, and moments below the desired count.

All of it is recorded from changes of the cluster's objects, not from what the controller says of
itself, so that a promise it breaks shows. Every change costs a few sums; nothing is ever counted
anew. `shortages` defines what a moment below the desired count is and whom it is charged to.
"""

from rescheduler.simulation.results.recorder import ResultRecorder
from rescheduler.simulation.results.result import Result

__all__ = ["Result", "ResultRecorder"]
