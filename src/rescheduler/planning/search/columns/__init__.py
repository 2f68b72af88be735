"""Column generation: which contents all nodes should have, found together.

A column is one node with one possible content: how many pods of each class it holds. A linear
program (`master_problem`) chooses a column for every node; its dual values say which further
columns would help, and `pricing` finds them near those in use. `integer_choice` then settles on one
column per node, and `class_transport` says which pods have to go where.
"""
