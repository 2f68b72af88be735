"""Small clusters are solved: all columns, branch and bound, and only plans that can be carried out.

A column is one node with one possible content, as in `columns`, whose classes and master problem
are used. In a small cluster, nearly all columns can be listed, so none is overlooked. Branch and
bound chooses one for every node, and what it is compared with is a plan whose moves are in order.
"""
