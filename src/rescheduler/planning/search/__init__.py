"""How moves are found: two searches over one objective.

`descent` takes the best single move again and again; `columns` chooses the contents of all nodes
together. They see the cluster as a `Problem` and return which pods should be where. What can be
brought into an order (`ordering`) is a plan, and the better one is taken (`best_plan`).
"""
