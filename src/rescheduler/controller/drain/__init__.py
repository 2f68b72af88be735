"""Drains one node: `node_drain` plans and moves, `drain_outcomes` keeps how the moves ended."""
