"""How moves are found: three searches over one objective.

`descent` takes the best single move again and again; `tabu_search` improves by moves and swaps,
with steps back; `node_consolidation` empties whole nodes. They see the cluster as a `Problem` and
return which pods should be where. What can be brought into an order (`ordering`) is the plan.
"""
