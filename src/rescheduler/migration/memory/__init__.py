"""The memory of moves that are over: one small MoveRecord for each, which outlives its Migration.

Records are written by the migration controller and read by planning, by later migrations and by
people. `docs/designs/move-memory.md` has the reasons.
"""
