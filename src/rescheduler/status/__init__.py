"""What the rescheduler is doing, and why: what a replica knows of itself, and who asks it.

A replica puts its answer together from what its parts know (`replica_report`), and serves it at
`/status`. `rescheduler status` reads that answer and the API server (`status_reader`). Both use the
same structs and the same words. What is printed, and how, is in `cli`.
"""
