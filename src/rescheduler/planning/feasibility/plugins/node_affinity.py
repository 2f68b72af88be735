"""NodeAffinity: the node must carry the labels of the pod's nodeSelector and match its affinity.

Of the required terms one must match, and of a term all of its expressions. The PreFilter part of
the plugin, which looks for terms that name nodes, never refuses a node that this accepts.
"""

import numpy as np

from rescheduler.model.objects import NodeSelector
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.filter_plugin import SharedLister, key_of


class NodeAffinity:
    """Refuses nodes that the pod's nodeSelector or required node affinity does not match."""

    name = "NodeAffinity"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister
        self._refused_by: dict[bytes, Bools] = {}

    def refused(self, template: int) -> Bools | None:
        asked = self._lister.snapshot.templates[template]
        required = required_nodes(asked)
        if not asked.node_selector and required is None:
            return None
        key = key_of(asked.node_selector, required)
        refused = self._refused_by.get(key)
        if refused is None:
            labels = self._lister.node_labels
            matching = labels.with_labels(asked.node_selector)
            if required is not None:
                matching &= labels.matching_any(required.node_selector_terms)
            refused = self._refused_by[key] = np.logical_not(matching)
        return refused

    def reason(self, template: int, node: int) -> str:
        asked = self._lister.snapshot.templates[template]
        labels = self._lister.snapshot.nodes.objects[node].metadata.labels
        for key, value in asked.node_selector.items():
            if labels.get(key) != value:
                return f"the pod's nodeSelector asks for {key}={value}"
        return "the node matches none of the terms of the pod's required node affinity"


def required_nodes(template: PodTemplate) -> NodeSelector | None:
    """The template's required node affinity, if it has one."""
    if template.affinity is None or template.affinity.node_affinity is None:
        return None
    return template.affinity.node_affinity.required
