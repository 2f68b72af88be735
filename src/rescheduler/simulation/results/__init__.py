"""What was measured in a simulation, and how it is shown.

`measurement` follows the cluster while it runs. `result` is what comes out, and what `-o json`
prints. `text` puts it into sentences and rows for the terminal, `html` into a page with plots.
All figures come from changes of the cluster's objects, not from what the controller says of
itself, so that a broken promise shows.
"""
