# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The webhook: the API server shows us every pod that a controller makes, before it exists.

It never refuses a pod. It has something to say about one in many thousands, and says nothing about
the others as quickly as it can.
"""

import base64
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from rescheduler.extender.protocol import BadRequest, question
from rescheduler.extender.waiting_migrations import WaitingMigrations
from rescheduler.extender.webhook.steering import Affinity, NewPodMeta, steering_patch
from rescheduler.model.objects import Part

logger = logging.getLogger(__name__)

API_VERSION = "admission.k8s.io/v1"


class NewPodSpec(Part):
    """What a new pod says about its place, as it came: it is only added to."""

    affinity: Affinity | None = None


class NewPod(Part):
    """A pod that is about to be made."""

    metadata: NewPodMeta = NewPodMeta()
    spec: NewPodSpec = NewPodSpec()


class KindName(Part):
    """What kind of object a request is about."""

    group: str = ""
    kind: str = ""


class AdmissionRequest(Part):
    """One question of the API server."""

    uid: str
    kind: KindName = KindName()
    operation: str = ""
    namespace: str = ""
    dry_run: bool = False
    object: NewPod | None = None


class AdmissionReview(Part):
    """The question in its envelope."""

    request: AdmissionRequest | None = None
    api_version: str = API_VERSION


class Admission:
    """Answers the API server."""

    def __init__(
        self,
        waiting: WaitingMigrations,
        clock: Callable[[], datetime],
        why_not_ready: Callable[[], str],
    ) -> None:
        self._waiting = waiting
        self._clock = clock
        self._why_not_ready = why_not_ready

    def review(self, body: bytes) -> bytes:
        """The answer to an AdmissionReview: always yes, sometimes with a patch."""
        request = request_in(body)
        patch = self._patch_for(request)
        response: dict[str, Any] = {"uid": request.uid, "allowed": True}
        if patch:
            encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
            response |= {"patchType": "JSONPatch", "patch": encoded}
        answer = {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
        return msgspec.json.encode(answer)

    def _patch_for(self, request: AdmissionRequest) -> list[dict[str, Any]]:
        pod = request.object
        if request.kind.kind != "Pod" or request.operation != "CREATE" or pod is None:
            return []
        if self._why_not_ready():
            return []
        migration = self._waiting.migration_for(pod.metadata, reserve=not request.dry_run)
        if migration is None:
            return []
        if not request.dry_run:
            extra = {"migration": migration.key, "target": migration.spec.target_node}
            logger.info("Steered a replacement", extra=extra)
        return steering_patch(pod.metadata, pod.spec.affinity, migration, self._clock())


def request_in(body: bytes) -> AdmissionRequest:
    """The question in a body."""
    review = question(body, AdmissionReview)
    if review.request is None:
        raise BadRequest("expected an AdmissionReview with a request in it")
    if review.api_version != API_VERSION:
        raise BadRequest(f"apiVersion {review.api_version!r}: expected {API_VERSION!r}")
    return review.request
