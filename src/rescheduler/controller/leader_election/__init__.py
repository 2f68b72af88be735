"""Which of several replicas leads, and that nobody else writes.

`lease_timing` decides, by the clock of this machine alone: until when may a write be sent, and when
has the lease of another replica expired. `elector` acquires, renews and releases the Lease
(`lease_object`), and `lease_fence` stops writes at the last moment. What a leader does is above, in
`program`.
"""
