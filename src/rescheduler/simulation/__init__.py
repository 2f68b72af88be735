"""A cluster in memory, on a clock turned by hand.

It answers the port that the API server answers (`kube/port.py`), so the controller, the planner
and the migrations that run in it are the very code that runs on Kubernetes. Here is what stands
for everything else: time, the API server, the controllers of Kubernetes, the scheduler, nodes and
people. Nothing here decides what to move or how; nothing here talks to a real cluster. The same
seed gives the same story, whatever it is told on. `docs/designs/simulation.md` says why.
"""
