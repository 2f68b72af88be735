"""A cluster in memory, with simulated time.

`cluster` stands for Kubernetes: the API server, its controllers, the scheduler and the kubelets. It
implements the interface of `kube/api_server.py`, so the controller, the planner and the migrations
that run on it are the very code that runs on a real cluster. `scenario` is the cluster at the start
and what happens to it from outside, `results` is what is measured, `simulation` puts them together.
Nothing here decides what to move or how, and nothing here talks to a real cluster. The same seed
gives the same run on any machine. `docs/designs/simulation.md` gives the reasons.
"""
