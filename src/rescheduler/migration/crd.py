"""The CustomResourceDefinition of Migrations: `rescheduler crds` prints it for `kubectl apply`.

The API server rejects invalid objects, by the schema and by CEL rules. Two rules protect the state
machine: pod, target and mode are immutable, and a finished migration stays finished, even if a
controller with an outdated view writes to it.
"""

from enum import StrEnum
from typing import Any

from rescheduler.migration.migration_object import API_VERSION, Phase, Step
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.names import DNS_NAME, MAX_NAME_LENGTH

GROUP, VERSION = API_VERSION.split("/")
NAME = f"migrations.{GROUP}"

MAX_TEXT_LENGTH, MAX_TIMEOUT_SECONDS = 4096, 86_400
TIME = (
    r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""A time that can be decoded, and to which some hours can be added.

The format `date-time` of the API server allows the year 0 and an offset of 99 hours. Migrations are
not followed without all of them, so with one such time nothing would be moved any more.
"""
WAITING_TO_START = "waiting to be started"
"""The message of a Migration that no controller has looked at, or for which there is no slot."""
WAITING = "waiting: "
"""How the message of a Migration begins that cannot start now."""

Schema = dict[str, Any]


def text(description: str, **limits: Any) -> Schema:
    """The schema of a string."""
    return {"type": "string", "description": description, "maxLength": MAX_TEXT_LENGTH, **limits}


def name(description: str) -> Schema:
    """The schema of an object's name."""
    return text(description, minLength=1, maxLength=MAX_NAME_LENGTH, pattern=f"^{DNS_NAME}$")


def number(description: str, minimum: int = 0, **limits: Any) -> Schema:
    """The schema of an integer."""
    limits = {"minimum": minimum, **limits}
    return {"type": "integer", "format": "int32", "description": description, **limits}


def moment(description: str) -> Schema:
    """The schema of a time."""
    return {"type": "string", "format": "date-time", "pattern": TIME, "description": description}


def one_of(values: type[StrEnum], description: str, **more: Any) -> Schema:
    """The schema of an enumeration."""
    return {"type": "string", "enum": [*values], "description": description, **more}


def record(
    description: str,
    properties: dict[str, Schema],
    required: tuple[str, ...] = (),
    rules: tuple[Schema, ...] = (),
    **more: Any,
) -> Schema:
    """The schema of an object with these fields, and CEL rules between them."""
    schema = {"type": "object", "description": description, "properties": properties, **more}
    schema |= {"required": [*required]} if required else {}
    return schema | ({"x-kubernetes-validations": [*rules]} if rules else {})


def rule(expression: str, message: str) -> Schema:
    """A CEL rule between fields."""
    return {"rule": expression, "message": message}


POD = record(
    "The pod to move.",
    {
        "name": name("The name of the pod, in the namespace of the Migration."),
        "uid": text(
            "The uid of the pod. Another pod of the same name is not moved.",
            minLength=1,
            maxLength=63,
        ),
    },
    required=("name", "uid"),
)

SPEC = record(
    "The requested move.",
    {
        "pod": POD,
        "targetNode": name("The node to move the pod to."),
        "mode": one_of(
            Mode,
            "How to move the pod. Handoff: the new pod is Ready before the old one is deleted. "
            "Evict: the old pod is evicted, and its controller replaces it. Recreate: a pod "
            "without a controller is copied to the target, then evicted. Auto: the least "
            "disruptive mode that is possible.",
            default=str(Mode.AUTO),
        ),
        "reason": text("Why the pod is moved."),
        "strategy": text(
            "The strategy that planned the move; empty if a person requested it.", maxLength=63
        ),
        "timeoutSeconds": number(
            "How many seconds each step may take, at most the timeout of the policy, which is the "
            "default.",
            minimum=1,
            maximum=MAX_TIMEOUT_SECONDS,
        ),
        "paused": {
            "type": "boolean",
            "description": "Whether to wait. A migration in progress is rolled back first, unless "
            "the workload already has the new pod or the old pod was evicted.",
        },
        "ttlSecondsAfterFinished": number(
            "How many seconds to keep the Migration after it has finished. The default is "
            "keepFinished of the policy."
        ),
    },
    required=("pod", "targetNode"),
    rules=(
        rule("self.pod == oldSelf.pod", "spec.pod is immutable: create another Migration"),
        rule(
            "self.targetNode == oldSelf.targetNode",
            "spec.targetNode is immutable: create another Migration",
        ),
        rule("self.mode == oldSelf.mode", "spec.mode is immutable: create another Migration"),
    ),
)

WORKLOAD = record(
    "The controller of the pod, as it was when the migration started.",
    {
        "kind": text("The kind of the controller."),
        "name": text("The name of the controller."),
        "uid": text("The uid of the controller."),
        "apiVersion": text("The API version of the controller."),
        "replicas": number("The desired number of pods or, if that is unknown, their number."),
        "templateHash": text("The version of the pod template that the pod was created from."),
    },
)

CONDITION = record(
    "A condition of the migration.",
    {
        "type": text("The type of the condition.", minLength=1, maxLength=316),
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": text("The reason, as one word.", maxLength=1024),
        "message": text("The reason, for people."),
        "lastTransitionTime": moment("When the status of the condition last changed."),
    },
    required=("type", "status"),
)

STATUS = record(
    "The progress of the migration. Written by the controller.",
    {
        "phase": one_of(Phase, "The phase of the migration.", default=str(Phase.PENDING)),
        "step": one_of(Step, "The current step of a migration in progress."),
        "mode": one_of(Mode, "The mode that was selected."),
        "attempts": number("How many times the migration was started."),
        "failures": number("How many attempts failed and were rolled back."),
        "sourceNode": text("The node that the pod is moved from."),
        "newPod": text("The pod that replaces the old one."),
        "newNode": text("The node of the new pod."),
        "workload": WORKLOAD,
        "outcome": one_of(
            Outcome,
            "Where the new pod runs. Landed: on the target. Elsewhere: on another node. CameBack: "
            "on the node it was moved from. Failed: see the message.",
        ),
        "steered": {
            "type": "boolean",
            "description": "Whether the replacement of an evicted pod was steered to the target, "
            "by the admission webhook or the scheduler extender.",
        },
        "message": text("What the migration does or waits for, or why it ended."),
        "evictedAt": moment("When the old pod was evicted, by the clock of the API server."),
        "newestSiblingAt": moment(
            "When the newest other pod of the workload was created, if that was after the "
            "Migration. The replacement of the old pod is newer."
        ),
        "afterUndoing": one_of(Phase, "The phase that follows when the rollback is finished."),
        "stepStartedAt": moment("When the current step started."),
        "retryAt": moment("When the migration is tried again, at the earliest."),
        "finishedAt": moment("When the migration finished."),
        "conditions": {
            "type": "array",
            "maxItems": 32,
            "items": CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
    default={"phase": str(Phase.PENDING), "message": WAITING_TO_START},
    rules=(
        rule(
            "!(oldSelf.phase in ['Completed', 'Failed', 'Cancelled']) "
            "|| self.phase == oldSelf.phase",
            "a finished migration stays finished",
        ),
        rule(
            "self.phase != 'InProgress' || (has(self.step) && has(self.mode))",
            "a migration in progress has a step and a mode",
        ),
    ),
)


def column(title: str, path: str, description: str, wide: bool = False, **more: Any) -> Schema:
    """A column of `kubectl get`; `wide` shows it only with `-o wide`."""
    definition = {"name": title, "type": "string", "jsonPath": path, "description": description}
    return definition | ({"priority": 1} if wide else {}) | more


COLUMNS = [
    column("Pod", ".spec.pod.name", "The pod to move"),
    column("From", ".status.sourceNode", "The node that the pod is moved from"),
    column("To", ".spec.targetNode", "The node that the pod is moved to"),
    column("Mode", ".status.mode", "The mode that was selected"),
    column("Phase", ".status.phase", "The phase of the migration"),
    column("Step", ".status.step", "The current step"),
    column("Outcome", ".status.outcome", "Where the new pod runs"),
    column("Age", ".metadata.creationTimestamp", "The age of the Migration", type="date"),
    column("Message", ".status.message", "What it does or waits for"),
    column("New pod", ".status.newPod", "The pod that replaces the old one", wide=True),
    column(
        "Steered",
        ".status.steered",
        "Whether the replacement was steered",
        wide=True,
        type="boolean",
    ),
    column(
        "Attempts",
        ".status.attempts",
        "How many times it was started",
        wide=True,
        type="integer",
    ),
    column("Reason", ".spec.reason", "Why the pod is moved", wide=True),
]

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "kind": "Migration",
            "listKind": "MigrationList",
            "plural": "migrations",
            "singular": "migration",
            "shortNames": ["mig"],
        },
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": COLUMNS,
                "schema": {
                    "openAPIV3Schema": record(
                        "A move of one pod to another node.",
                        {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": SPEC,
                            "status": STATUS,
                        },
                        required=("spec",),
                    )
                },
            }
        ],
    },
}
