"""What tests of an installation share: a cluster that logs every request, and Helm."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testcluster import TestCluster
from testcluster.build import ensure_program, helm_program
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


@pytest.fixture(scope="session")
def helm_binary(binary: Path) -> Path:
    """Helm; built now if it is not in the cache yet. A test that asks for it is not fast."""
    return ensure_program(helm_program())
