"""A number of real nodes that cannot be is refused in one line, before anything starts."""

import pytest

from testcluster import TestCluster
from testcluster.__main__ import main
from testcluster.cluster import ClusterError


@pytest.mark.parametrize("count", ["10", "-1", "two"])
def test_the_command_refuses_a_number_of_real_nodes_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: str
) -> None:
    monkeypatch.setattr("sys.argv", ["testcluster", "run", "--real-nodes", count])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith(f"argument --real-nodes: '{count}': expected a number from 0 to 9")


@pytest.mark.parametrize("count", [10, -1])
def test_a_cluster_refuses_a_number_of_real_nodes_that_cannot_be(count: int) -> None:
    with pytest.raises(ClusterError, match=f"^{count} real nodes: expected 0 to 9$"):
        TestCluster(real_nodes=count)
