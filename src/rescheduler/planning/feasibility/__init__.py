"""May this pod run on that node? The answer is kube-scheduler's, for all nodes at once.

`plugins/` has one file per filter plugin of the scheduler, named after it: it refuses nodes and
says why. `checker.py` asks them all. A plugin that depends on the pods already placed (resources,
ports, affinity) keeps counts; moving a pod and moving it back leaves them exactly as they were.

Plugins are asked about templates, not pods: all pods of a template get the same answer. Preferences
are not looked at here, since they never keep a pod from a node.
"""
