"""Speed and memory, measured on generated clusters of the sizes that users run.

`make bench` runs them all and prints a table and JSON. Each is measured in a process of its own,
so that one's memory does not count for another. Figures depend on the machine; the last column
says what is asked of each.
"""
