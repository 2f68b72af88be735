"""Prometheus and promtool, for tests of alerts and of the dashboard."""

from pathlib import Path

import pytest

from testcluster.prometheus import PrometheusPrograms, ensure_prometheus


@pytest.fixture(scope="session")
def prometheus_programs(binary: Path) -> PrometheusPrograms:
    """It asks for the cluster's binary: without Debian, both are built with the same toolchain."""
    return ensure_prometheus()
