"""An index of pod templates by label."""

from collections import defaultdict
from collections.abc import Sequence

from rescheduler.model.objects import LabelSelector
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.selectors import matches


class TemplateIndex:
    """Templates by label, so that a selector is matched against few of them."""

    def __init__(self) -> None:
        self._templates: list[PodTemplate] = []
        self._with_label: defaultdict[tuple[str, str], list[int]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._templates)

    def add(self, template: PodTemplate) -> None:
        """Add a template; it gets the next number."""
        for label in template.labels.items():
            self._with_label[label].append(len(self._templates))
        self._templates.append(template)

    def selected_by(self, selector: LabelSelector | None) -> list[int]:
        """Numbers of the templates that a selector matches, in any namespace; none for None."""
        if selector is None:
            return []
        return [
            number
            for number in self._candidates(selector)
            if matches(selector, self._templates[number].labels)
        ]

    def _candidates(self, selector: LabelSelector) -> Sequence[int]:
        """The templates with the rarest of the labels that the selector requires."""
        found: list[Sequence[int]] = [
            self._with_label.get(label, ()) for label in selector.match_labels.items()
        ]
        for requirement in selector.match_expressions:
            if requirement.operator == "In" and len(requirement.values) == 1:
                found.append(self._with_label.get((requirement.key, requirement.values[0]), ()))
        return min(found, key=len, default=range(len(self._templates)))
