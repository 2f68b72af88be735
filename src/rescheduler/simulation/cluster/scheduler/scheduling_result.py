"""What the scheduler says of one pod."""

import msgspec


class SchedulingResult(msgspec.Struct, frozen=True):
    """Where a pod goes, or why it has to wait."""

    pod: str
    """`namespace/name`"""
    node: str = ""
    """Empty if there is no node for the pod."""
    reason: str = ""
    """Why there is none, in the scheduler's words: `0/3 nodes are available: …`"""
