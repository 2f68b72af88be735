"""May this pod run on that node? The answer is kube-scheduler's, for all nodes at once.

One file per scheduler plugin, named after it, each a *rule* that refuses nodes and says why.
`judge.py` puts them together. A rule that depends on the pods already placed (room, ports, who is
near whom) keeps counts, which a planned move changes and an undo changes back, exactly.

Rules judge templates, not pods: all pods of a template get the same answer. Preferences are not
judged here; they are wishes, and never keep a pod from a node.
"""
