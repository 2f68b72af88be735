"""Tables: the objects of one kind, kept up to date by lists and watches, in compact columns.

`ClusterTables` holds a table for every kind and takes snapshots of them all. What a table keeps of
an object is decided here; what is asked of it is in `model.snapshot`.
"""
