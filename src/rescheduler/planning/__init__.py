"""Decides. A snapshot and a policy go in, a plan comes out.

Here is what may run where, which pods may be moved at all, what would be better, and the search
for the few moves that gain most. Everything is pure: no I/O, no clock, no logging. Whatever was
found out on the way, such as why a pod was left alone, is in the plan.
"""
