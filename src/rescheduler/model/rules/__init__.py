"""Rules about single objects that several packages ask: plain predicates, each declared once.

Planner, controller, extender and simulation must answer these questions alike. Rules about whether
a pod fits on a node are kube-scheduler's, and in `planning.feasibility`.
"""
