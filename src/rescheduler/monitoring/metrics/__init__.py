"""The metrics: what each is called (`definitions.py`), and who fills it.

Counters and histograms are counted by observers when something happens. Gauges are collectors: they
are read from the program when Prometheus asks.
"""
