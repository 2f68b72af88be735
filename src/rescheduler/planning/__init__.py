"""Decides. A snapshot and a policy go in, a plan comes out.

Here is what may run where (`feasibility`), which pods may be moved at all (`movability`), what
would be better (`strategies`), and the search for the few moves that gain most (`problem`,
`search`). Everything is pure: no I/O, no clock, no logging. Whatever was found out, such as why a
pod was left alone, is in the plan.
"""
