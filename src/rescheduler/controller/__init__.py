"""The program that runs on a cluster: what decides when to plan, and keeps migrations going.

`program` composes it. `planning_loop` plans every round and creates the Migrations,
`migration_controller` reconciles them with a work queue, `cordons` and `node_drain` look after
nodes that are being emptied. How one move is carried out is in `migration`; which moves are worth
it is in `planning`.
"""
