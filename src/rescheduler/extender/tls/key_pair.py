"""A certificate and its key, wherever they come from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes
