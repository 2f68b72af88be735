"""The CustomResourceDefinition of MoveRecords."""

from typing import Any

from rescheduler.migration.crd import (
    CRD,
    GROUP,
    VERSION,
    WORKLOAD,
    column,
    moment,
    one_of,
    record,
    rule,
    text,
)
from rescheduler.migration.memory.move_record import MAX_RECORDED_TEXT
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.names import MAX_NAME_LENGTH

NAME = f"moverecords.{GROUP}"


def short_text(description: str, **limits: Any) -> dict[str, Any]:
    """The schema of a text or a name of which only so much is kept."""
    return text(description, **{"maxLength": MAX_RECORDED_TEXT, **limits})


SPEC = record(
    "What was moved, when and why, from where to where, and how it ended.",
    {
        "namespace": short_text("The namespace of the pod.", minLength=1),
        "pod": short_text("The pod that was moved.", minLength=1, maxLength=MAX_NAME_LENGTH),
        "sourceNode": short_text("The node that the pod was moved from."),
        "targetNode": short_text("The node that the pod was to be moved to."),
        "outcome": one_of(
            Outcome,
            "Where the new pod runs. Landed: on the target. Elsewhere: on another node. CameBack: "
            "on the node it was moved from. Failed: see the message.",
        ),
        "finishedAt": moment("When the move ended."),
        "newPod": short_text("The pod that replaced the old one."),
        "newNode": short_text("The node of the new pod."),
        "workload": WORKLOAD,
        "mode": one_of(Mode, "The mode in which it was moved."),
        "strategy": short_text(
            "The strategy that planned the move; empty if a person requested it."
        ),
        "reason": short_text("Why the pod was moved."),
        "message": short_text("How the move ended."),
        "unreplaced": {
            "type": "boolean",
            "description": "Whether the pod was evicted, and not replaced in time.",
        },
        "nominationIgnored": {
            "type": "boolean",
            "description": "Whether the scheduler of the pod does not look at nominations.",
        },
    },
    required=("namespace", "pod", "sourceNode", "targetNode", "outcome", "finishedAt"),
    rules=(rule("self == oldSelf", "a record is not changed"),),
)

COLUMNS = [
    column("Namespace", ".spec.namespace", "The namespace of the pod"),
    column("Pod", ".spec.pod", "The pod that was moved"),
    column("From", ".spec.sourceNode", "The node that the pod was moved from"),
    column("To", ".spec.targetNode", "The node that the pod was to be moved to"),
    column("Outcome", ".spec.outcome", "How the move ended"),
    column("Strategy", ".spec.strategy", "The strategy that planned the move"),
    column("Finished", ".spec.finishedAt", "When the move ended", type="date"),
    column("Mode", ".spec.mode", "The mode in which it was moved", wide=True),
    column("Reason", ".spec.reason", "Why the pod was moved", wide=True),
    column("Message", ".spec.message", "How the move ended", wide=True),
]

MOVE_RECORD_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": {
            "kind": "MoveRecord",
            "listKind": "MoveRecordList",
            "plural": "moverecords",
            "singular": "moverecord",
            "shortNames": ["moves"],
        },
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "additionalPrinterColumns": COLUMNS,
                "schema": {
                    "openAPIV3Schema": record(
                        "A move that is over. The controller writes it and reads it again.",
                        {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": SPEC,
                        },
                        required=("spec",),
                    )
                },
            }
        ],
    },
}

ALL_CRDS = (CRD, MOVE_RECORD_CRD)
"""All that moving pods needs."""
