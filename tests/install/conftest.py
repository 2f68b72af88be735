"""A cluster whose API server logs every request, for tests that install on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testcluster import TestCluster
from tests.conftest import SayAtTheEnd, stop


@pytest.fixture(scope="session")
def audited(
    request: pytest.FixtureRequest, binary: Path, say_at_the_end: SayAtTheEnd
) -> Iterator[TestCluster]:
    """A cluster without CustomResourceDefinitions, and with an audit log.

    Leave it as it was.
    """
    cluster = TestCluster(audit=True)
    cluster.start()
    before = request.session.testsfailed
    yield cluster
    stop(cluster, say_at_the_end, keep_logs=request.session.testsfailed > before)
