"""The problem that searches work on: which pods could move, where to, and what that is worth.

The objective, the limits on moves and the cost of a move. How good moves are found is in
`planning.search`.
"""
