"""Carries out one move: the Migration object, the state machine, and what acts on its decisions.

`state_machine/` decides and is pure: an observation goes in, the next action comes out. `observer`
builds the observation, `executor` carries out the action, `leftover_cleanup` restores what an
interrupted migration has left behind. `new_pod`, `replacement` and `migration_labels` answer
single questions about pods, and are pure too.

All state is in the API server: in the Migration's status, and in labels and annotations on the
objects it touches. Which pods to move is decided in `planning`; when migrations run, and how many
at once, in `controller`. `docs/designs/migration.md` has the reasons.
"""
