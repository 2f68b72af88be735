"""What an installation offers to Prometheus and Grafana: alert rules, a dashboard, their objects.

Both are written once, here, and shipped as plain files, as objects and in the chart. They name
metrics; the package `rescheduler.monitoring` has them, and a test compares both.
"""
