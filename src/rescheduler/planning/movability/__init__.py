"""May this pod be moved at all, and in which mode? Nothing in the way, or the blocker.

What the pod, its owner, its budgets, its past moves and the policy say. What a node says to the pod
is in `planning.feasibility`.
"""
