"""HTTP servers that anybody in the cluster may connect to: what protects them.

A thread and a loop of their own, limits on connections, requests and bodies, and what is logged of
refusals. What is served belongs to those who serve it: `extender` and `monitoring`.
"""
