"""A rescheduler for Kubernetes: moves running pods to better nodes, without anyone noticing."""
