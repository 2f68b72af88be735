"""The scheduler's decision about one pod."""

import msgspec


class SchedulingResult(msgspec.Struct, frozen=True):
    """The node of a pod, or why there is none."""

    pod: str
    """`namespace/name`"""
    node: str = ""
    """Empty if no node accepts the pod."""
    reason: str = ""
    """The scheduler's message: `0/3 nodes are available: …`"""
    loses_nomination: bool = False
    """Whether its nomination is taken back because no node accepts the pod."""
