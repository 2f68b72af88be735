"""The state machine of one migration: an observation goes in, the next action comes out.

Pure: no I/O, no clock, no logging. `machine` decides by phase; `handoff`, `eviction` and
`recreation` are the modes; `rollback` restores what an attempt has changed; `status_transitions`
has every change of the status. The executor carries the actions out. In all functions, `o` is the
observation, `o.old` the pod to move and `o.new` the pod of the current attempt.
"""
