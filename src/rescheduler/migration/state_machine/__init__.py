"""The state machine of one migration: an observation goes in, the next action comes out.

Pure: no I/O, no clock, no logging. `machine` decides between phases, `handoff`, `eviction` and
`recreation` are the modes, `rollback` undoes an attempt. The executor carries the actions out.
"""
