"""Pieces of PromQL that alerts and panels share."""

INSTALLATION = "cluster, namespace, job"
"""The labels of one installation. Prometheus adds them; labels that it does not add are empty."""

REPLICA = f"{INSTALLATION}, instance"


def acting(selector: str) -> str:
    """What all replicas but those on standby report.

    A replica that was the leader earlier still shows what it planned then.
    """
    return f"({selector} unless on ({REPLICA}) rescheduler_leader == 0)"


def quantile(share: float, histogram: str, window: str, *labels: str) -> str:
    """How long the slowest requests take: all but `share` of them are faster."""
    grouping = ", ".join(("le", *labels))
    return f"histogram_quantile({share:g}, sum by ({grouping}) (rate({histogram}[{window}])))"
