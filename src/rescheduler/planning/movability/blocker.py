"""Blocker: why a pod must stay."""

from typing import NamedTuple


class Blocker(NamedTuple):
    """Why a pod must stay: a name to count by, and a sentence for people."""

    name: str
    detail: str
