"""Modes and outcomes of moves: the words that planner, controller and people share."""

from enum import StrEnum


class Mode(StrEnum):
    """How a pod is moved."""

    AUTO = "Auto"
    """Asked for, never planned: the controller chooses the gentlest mode that the pod allows."""
    HANDOFF = "Handoff"
    """The new pod is Ready on its target before the old one goes."""
    EVICT = "Evict"
    """The old pod goes first, through the Eviction API."""
    RECREATE = "Recreate"
    """A copy under another name is Ready on its target before the old pod goes."""


class Outcome(StrEnum):
    """How a move ended."""

    NONE = ""
    """It has not ended, or was cancelled."""
    LANDED = "Landed"
    """The pod runs on the target."""
    ELSEWHERE = "Elsewhere"
    """Its replacement runs on a node that was not planned."""
    CAME_BACK = "CameBack"
    """Its replacement runs where it came from."""
    FAILED = "Failed"
    """The move was given up, and the pod is where it was."""
