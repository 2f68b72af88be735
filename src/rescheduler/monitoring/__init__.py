"""What people and machines ask about a running program: probes, metrics, status.

It is imported only if `--health` is given. Lower packages know nothing of it: they call observers,
which do nothing by default. Whatever uses Prometheus' library is in here.
"""
