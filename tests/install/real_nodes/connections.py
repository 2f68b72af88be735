"""The connections that were really made on real nodes, from the kernel's tables of them.

Every node translates addresses for its pods, so it tracks what goes through it. An entry stays for
half a minute or longer after its last packet, so none is missed by reading the table now and then.
"""

import re
import threading
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from testcluster import TestCluster

READ_SECONDS = 3.0
FIELD = re.compile(r"\b(src|dst|sport|dport)=(\S+)")
# Source, destination and ports of the first packet, and those of the answer to it.
FIELDS_OF_AN_ENTRY = 8
TABLE = "net/nf_conntrack"


def missing_tables() -> str:
    """Why connections cannot be seen on this machine, or nothing."""
    return "" if Path("/proc/self", TABLE).exists() else f"the kernel has no /proc/{TABLE}"


class Connection(NamedTuple):
    """A connection as the node of its destination sees it, where addresses are translated."""

    protocol: str
    source: str
    destination: str
    port: int


class Connections:
    """Collects the connections of all nodes while the block runs."""

    def __init__(self, cluster: TestCluster) -> None:
        pids = cluster.nodes.first_pids.values()
        self._tables = [Path("/proc", str(pid), TABLE) for pid in pids]
        self._found: set[Connection] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join()

    def all(self) -> set[Connection]:
        """All of them until now."""
        self._read()
        return set(self._found)

    def _follow(self) -> None:
        while not self._ends.wait(READ_SECONDS):
            self._read()

    def _read(self) -> None:
        for table in self._tables:
            self._found.update(connections_in(table.read_text()))


def connections_in(table: str) -> set[Connection]:
    """The connections in the text of a table; what has no ports is none."""
    found = set()
    for line in table.splitlines():
        values = [value for _, value in FIELD.findall(line)]
        if len(values) == FIELDS_OF_AN_ENTRY:
            source, _, _, _, destination, _, port, _ = values
            found.add(Connection(line.split()[2].upper(), source, destination, int(port)))
    return found
