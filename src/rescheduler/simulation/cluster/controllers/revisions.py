"""Versions of templates, as StatefulSets and DaemonSets write them on their pods."""

import hashlib
from collections import Counter

import msgspec

from rescheduler.migration.new_pod import NAME_CHARACTERS
from rescheduler.simulation.cluster.controllers.base import ControllerContext
from rescheduler.simulation.cluster.json_objects import Json, labels_of, uid_of

REVISION = "controller-revision-hash"
HASH_LENGTH = 10


def hash_of(template: Json) -> str:
    """A word for a version of a template: the same each time."""
    text = msgspec.json.encode(template, order="deterministic")
    digest = hashlib.sha256(text).digest()
    return "".join(NAME_CHARACTERS[byte % len(NAME_CHARACTERS)] for byte in digest[:HASH_LENGTH])


class Revisions:
    """The word for each owner's template.

    For pods that were there from the start it is the word that they came with: a real cluster
    makes its words otherwise, and nobody wants to see a rollout that nobody asked for.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._words: dict[str, tuple[Json, str]] = {}

    def word(self, owner: Json) -> str:
        """The word for the template that its owner has now."""
        template = owner["spec"].get("template") or {}
        known = self._words.get(uid_of(owner))
        if known is None:
            known = template, self._found(owner) or self._made(owner, template)
        elif known[0] is not template and known[0] != template:
            known = template, self._made(owner, template)
        self._words[uid_of(owner)] = known
        return known[1]

    def _found(self, owner: Json) -> str:
        pods = self._context.indexes.pods_owned_by(uid_of(owner))
        words = Counter(labels_of(pod).get(REVISION, "") for pod in pods)
        return words.most_common(1)[0][0] if words else ""

    def _made(self, owner: Json, template: Json) -> str:
        word = hash_of(template)
        return f"{owner['metadata']['name']}-{word}" if owner["kind"] == "StatefulSet" else word
