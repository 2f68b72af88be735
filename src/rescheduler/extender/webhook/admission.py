# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The webhook's handler: the API server sends it every pod that a controller creates.

It never refuses a pod. It changes one in many thousands, and answers quickly for the others.
"""

import base64
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from rescheduler.extender.protocol import decoded
from rescheduler.extender.scheduling_request import with_controller_only
from rescheduler.extender.waiting_migrations import WaitingMigrations
from rescheduler.extender.webhook.steering import AdmittedPodMeta, Affinity, steering_patch
from rescheduler.log_context import about_migration
from rescheduler.model.objects import Part
from rescheduler.serving.refusals import BadRequest

logger = logging.getLogger(__name__)

API_VERSION = "admission.k8s.io/v1"


class AdmittedPodSpec(Part):
    """The one field of a spec that we add to, undecoded so that nothing of it is lost."""

    affinity: Affinity | None = None


class AdmittedPod(Part):
    """A pod that is about to be created."""

    metadata: AdmittedPodMeta = AdmittedPodMeta()
    spec: AdmittedPodSpec = AdmittedPodSpec()


class GroupKind(Part):
    """The kind of object that a request is about; its group does not matter to us."""

    kind: str = ""


class AdmissionRequest(Part):
    """One request of the API server."""

    uid: str
    kind: GroupKind = GroupKind()
    namespace: str = ""
    operation: str = ""
    dry_run: bool = False
    object: AdmittedPod | None = None


class AdmissionReview(Part):
    """The envelope of a request."""

    request: AdmissionRequest | None = None
    api_version: str = API_VERSION


class AdmissionHandler:
    """Answers the API server."""

    def __init__(
        self,
        migrations: WaitingMigrations,
        clock: Callable[[], datetime],
        why_not_ready: Callable[[], str],
    ) -> None:
        self._migrations = migrations
        self._clock = clock
        self._why_not_ready = why_not_ready

    def review(self, request: AdmissionRequest, *, is_from_api_server: bool = True) -> bytes:
        """The response to an AdmissionReview: always allowed, sometimes with a patch.

        The migration is kept for this pod for a moment, but only if the API server asks: anyone
        else who asks creates no pod, and the real one would go without a preference.
        """
        patch = self._patch_for(request, is_from_api_server)
        response: dict[str, Any] = {"uid": request.uid, "allowed": True}
        if patch:
            encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
            response |= {"patchType": "JSONPatch", "patch": encoded}
        review = {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
        return msgspec.json.encode(review)

    def _patch_for(
        self, request: AdmissionRequest, is_from_api_server: bool
    ) -> list[dict[str, Any]]:
        pod = request.object
        if request.kind.kind != "Pod" or request.operation != "CREATE" or pod is None:
            return []
        if self._why_not_ready():
            return []
        creates_pod = is_from_api_server and not request.dry_run
        metadata = msgspec.structs.replace(pod.metadata, namespace=request.namespace)
        migration = self._migrations.migration_for(metadata, reserve=creates_pod)
        if migration is None:
            return []
        if creates_pod:
            with about_migration(migration.key, migration.metadata.uid):
                extra = {"target": migration.spec.target_node}
                logger.info("Steered a replacement", extra=extra)
        return steering_patch(pod.metadata, pod.spec.affinity, migration, self._clock())


def request_in(body: bytes) -> AdmissionRequest:
    """The request in a review."""
    review = decoded(body, AdmissionReview)
    if review.request is None:
        raise BadRequest("expected an AdmissionReview with a request in it")
    if review.api_version != API_VERSION:
        raise BadRequest(f"apiVersion {review.api_version!r}: expected {API_VERSION!r}")
    return with_controller_only_in(review.request)


def with_controller_only_in(request: AdmissionRequest) -> AdmissionRequest:
    """A request whose pod has lost its other owners, of which a stranger may send any number."""
    pod = request.object
    if pod is None:
        return request
    pod = msgspec.structs.replace(pod, metadata=with_controller_only(pod.metadata))
    return msgspec.structs.replace(request, object=pod)
