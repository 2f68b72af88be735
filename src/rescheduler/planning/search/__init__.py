"""How moves are found: three searches over one objective.

`descent` takes the best single move again and again; `exchange` improves by moves and swaps, with
steps back; `closing` empties whole nodes. They know the cluster as a `Problem` and hand out
where pods should be; what can be brought into an order is the plan.
"""
