"""The program that runs on a cluster: it plans in rounds and reconciles migrations.

`program` composes it. `planning_loop` runs the rounds and creates Migrations (`move_requests`);
`migration_controller` reconciles them, with a `work_queue` that `change_handlers` fills from
watches. `cordons` and `drain` are for nodes that are emptied. How one move is carried out is
in `migration`; which moves are worth it is decided in `planning`.
"""
