"""Looks an installation over: does it run, may it do what it must, and is it reached?

Each check reads from the API server and returns findings; nothing is written to the cluster. What
can be judged without asking is in functions of its own (`rights_findings`, `lease_finding`, ...).
The command `rescheduler doctor` prints what is found.
"""
