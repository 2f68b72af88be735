"""A cluster in memory, on a clock turned by hand.

`cluster` stands for Kubernetes: the API server, its controllers, the scheduler and the nodes. It
answers the interface of `kube/api_server.py`, so the controller, the planner and the migrations
that run in it are the very code that runs on a real cluster. `scenario` is what happens to it
from outside, `results` is what was measured. Nothing here decides what to move or how, and nothing
here talks to a real cluster. The same seed gives the same run on any machine.
`docs/designs/simulation.md` gives the reasons.
"""
