"""Speed and memory, measured on generated clusters of the sizes that users run.

`make bench` runs them all and prints a table and JSON. Each is measured in a process of its own,
so that memory is measured separately. Figures depend on the machine; the last columns show the
limit of each figure, and whether it is kept.
"""
