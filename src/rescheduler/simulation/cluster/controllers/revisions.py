"""Revision hashes of templates, which controllers write on pods as a label."""

import hashlib
from collections import Counter

import msgspec

from rescheduler.labels import REVISION_HASH
from rescheduler.migration.new_pod import NAME_CHARACTERS
from rescheduler.simulation.cluster.controllers.base import ControllerContext
from rescheduler.simulation.cluster.json_objects import Json, labels_of, uid_of

HASH_LENGTH = 10


def hash_of(template: Json) -> str:
    """A hash of a template; the same in every run."""
    text = msgspec.json.encode(template, order="deterministic")
    digest = hashlib.sha256(text).digest()
    return "".join(NAME_CHARACTERS[byte % len(NAME_CHARACTERS)] for byte in digest[:HASH_LENGTH])


class Revisions:
    """The revision hash of each owner's template.

    For an owner whose pods were there from the start, it is the hash on its pods: a real cluster
    computes other hashes, and the difference would start a rollout.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._hashes: dict[str, tuple[Json, str]] = {}

    def hash_for(self, owner: Json) -> str:
        """The hash of the template that the owner has now."""
        template = owner["spec"].get("template") or {}
        known = self._hashes.get(uid_of(owner))
        if known is None:
            known = template, self._hash_on_pods(owner) or self._new_hash(owner, template)
        elif known[0] is not template and known[0] != template:
            known = template, self._new_hash(owner, template)
        self._hashes[uid_of(owner)] = known
        return known[1]

    def _hash_on_pods(self, owner: Json) -> str:
        pods = self._context.indexes.pods_owned_by(uid_of(owner))
        hashes = Counter(labels_of(pod).get(REVISION_HASH, "") for pod in pods)
        return hashes.most_common(1)[0][0] if hashes else ""

    def _new_hash(self, owner: Json, template: Json) -> str:
        new = hash_of(template)
        return f"{owner['metadata']['name']}-{new}" if owner["kind"] == "StatefulSet" else new
