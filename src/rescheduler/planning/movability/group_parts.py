"""Pod groups: which pods leave together or not at all.

A group need not move as a whole: its members may be on many nodes. But those on one node leave it
together, and so do all those on nodes under maintenance.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from rescheduler.labels import POD_GROUPS
from rescheduler.model.rules.immovable_pods import belongs_to_node
from rescheduler.model.rules.node_availability import NodeLabel, is_under_maintenance
from rescheduler.model.snapshot import Snapshot

# Stands for all nodes that somebody wants emptied.
_UNDER_MAINTENANCE = -1


class GroupPart(NamedTuple):
    """The members of a group that leave together."""

    namespace: str
    group: str
    node: int

    @property
    def in_words(self) -> str:
        """What leaves together, as the beginning of a sentence."""
        where = "nodes" if self.node == _UNDER_MAINTENANCE else "node"
        return f"pod group {self.namespace}/{self.group} leaves its {where} together"


class GroupParts:
    """The parts of all groups of a snapshot. Pods that belong to their nodes are in none."""

    def __init__(self, snapshot: Snapshot, maintenance_label: NodeLabel) -> None:
        self._snapshot = snapshot
        self._maintenance_label = maintenance_label

    @cached_property
    def members(self) -> dict[GroupPart, list[int]]:
        """The rows of the pods of each part."""
        groups = self._group_of_template()
        if not groups:
            return {}
        members: dict[GroupPart, list[int]] = {}
        pods = self._snapshot.pods
        rows = np.flatnonzero(np.isin(pods.template, list(groups)) & pods.placed)
        places = self._places()
        for row in rows.tolist():
            part = GroupPart(*groups[int(pods.template[row])], places[int(pods.node[row])])
            members.setdefault(part, []).append(row)
        return members

    @cached_property
    def part_of(self) -> dict[int, GroupPart]:
        """The part that each pod of a group is in, by its row."""
        return {row: part for part, rows in self.members.items() for row in rows}

    def _group_of_template(self) -> dict[int, tuple[str, str]]:
        return {
            number: (template.namespace, template.labels[key])
            for number, template in enumerate(self._snapshot.templates)
            # The first of the labels counts most.
            for key in reversed(POD_GROUPS)
            if key in template.labels and not belongs_to_node(template.owner_kind)
        }

    def _places(self) -> list[int]:
        """For each node the number that its members have in common."""
        return [
            _UNDER_MAINTENANCE if is_under_maintenance(node, self._maintenance_label) else row
            for row, node in enumerate(self._snapshot.nodes.objects)
        ]
