"""Pieces of PromQL that alerts and panels share."""

INSTALLATION = "cluster, namespace, job"
"""The labels of one installation. Prometheus adds them; labels that it does not add are empty."""


def quantile(share: float, histogram: str, window: str, *labels: str) -> str:
    """How long the slowest requests take: all but `share` of them are faster."""
    grouping = ", ".join(("le", *labels))
    return f"histogram_quantile({share:g}, sum by ({grouping}) (rate({histogram}[{window}])))"
