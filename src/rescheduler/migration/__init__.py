"""Carrying out moves, one Migration object each, without anyone noticing.

What decides is pure: `machine.py` and the ways to move (`handoff.py`, `eviction.py`,
`recreation.py`) take what was observed and return the next action; `limits.py`, `history.py`,
`copies.py` and `marks.py` answer single questions. What acts is thin: `observer.py` looks,
`hands.py` does what the machine says, `controller.py` feeds keys from watches to workers.

All state is in the API server: on the Migration, and as marks on the objects it touches. Nothing
here chooses what to move, and nothing here knows HTTP. `docs/designs/migration.md` says why.
"""
