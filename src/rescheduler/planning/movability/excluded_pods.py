"""Which pods the policy excludes by their labels.

Replicas share their labels, so templates are asked. But templates lack the labels that migrations
write, as long as no selector in the cluster names them, and a policy is not in the cluster. A
selector of the policy that names them is matched pod by pod.
"""

import numpy as np

from rescheduler.model.objects import LabelSelector
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.selected_labels import named_by_selector
from rescheduler.model.selectors import selects
from rescheduler.model.snapshot import Bools, Snapshot
from rescheduler.planning.movability.blocker import Blocker

EXCLUDED = Blocker("ExcludedBySelector", "the policy's excludedPodSelector matches it")


def excludes_template(selector: LabelSelector | None, template: PodTemplate) -> bool:
    """Whether all pods of a template are excluded, whatever migrations have written on them."""
    return not named_by_selector(selector) and selects(selector, template.labels)


def excluded_one_by_one(selector: LabelSelector | None, snapshot: Snapshot) -> Bools:
    """Pods that are excluded by a selector that names labels of migrations."""
    if not named_by_selector(selector):
        return np.zeros(len(snapshot.pods), bool)
    by_template = [selects(selector, template.labels) for template in snapshot.templates]
    excluded = np.array(by_template, bool)[snapshot.pods.template]
    move_labels = snapshot.pods.move_labels
    for row in move_labels.rows():
        labels = {**snapshot.template_of(row).labels, **move_labels[row]}
        excluded[row] = selects(selector, labels)
    return excluded
