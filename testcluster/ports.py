"""Free ports on 127.0.0.1 for servers that need to know theirs before they start."""

import random
import socket

# Below the ephemeral ports of outgoing connections, so that none of those takes a port after it
# was picked here and before a server binds it.
PORT_RANGE = range(20000, 32000)


def pick_ports(count: int) -> list[int]:
    """Distinct ports that no process listens on at this moment.

    Another process may still take one before it is used. The caller has to notice that and pick
    again.
    """
    ports: set[int] = set()
    while len(ports) < count:
        port = random.choice(PORT_RANGE)
        if is_free(port):
            ports.add(port)
    return list(ports)


def is_free(port: int) -> bool:
    """Whether a server could bind the port now."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
