"""What a cluster's owner asks the supervisor to start."""

from dataclasses import dataclass

KEEP_LOGS = "keep logs\n"
"""What the owner writes before it closes the pipe, if not all files are to be removed."""


@dataclass(frozen=True)
class Order:
    """The nodes of a cluster. Passed as JSON, in a file."""

    directory: str
    """The directory of the whole cluster."""
    cgroup: str
    apiserver_port: int
    nodes_socket: str
    """Where the API server connects to, in order to reach a node."""
    inits: list[str]
    """The script of the first process of each node."""
    logs: list[str]
    """The log of each of these."""
    env: dict[str, str]
    """Variables with which the programs for networks are found."""
