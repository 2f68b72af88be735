"""The definition of Migrations: what `kubectl apply` needs, and what the server checks.

Nonsense is refused where it is written: by the schema, and by rules between fields. Two of them
guard the machine itself: what is to be moved where cannot be changed under way, and a migration
that has finished stays finished, whoever still believes otherwise.
"""

from enum import StrEnum
from typing import Any

from rescheduler.migration.migration_object import API_VERSION, Phase, Step
from rescheduler.model.moves import Mode, Outcome

GROUP, VERSION = API_VERSION.split("/")
NAME = f"migrations.{GROUP}"

DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LONGEST_NAME, LONGEST_TEXT, LONGEST_WAIT = 253, 4096, 86_400

Schema = dict[str, Any]


def text(description: str, **limits: Any) -> Schema:
    """A string."""
    return {"type": "string", "description": description, "maxLength": LONGEST_TEXT, **limits}


def name(description: str) -> Schema:
    """The name of an object."""
    return text(description, minLength=1, maxLength=LONGEST_NAME, pattern=DNS_NAME)


def number(description: str, minimum: int = 0, **limits: Any) -> Schema:
    """A whole number."""
    limits = {"minimum": minimum, **limits}
    return {"type": "integer", "format": "int32", "description": description, **limits}


def moment(description: str) -> Schema:
    """A time."""
    return {"type": "string", "format": "date-time", "description": description}


def one_of(words: type[StrEnum], description: str, **more: Any) -> Schema:
    """One of a few words."""
    return {"type": "string", "enum": [*words], "description": description, **more}


def record(
    description: str,
    properties: dict[str, Schema],
    required: tuple[str, ...] = (),
    rules: tuple[Schema, ...] = (),
    **more: Any,
) -> Schema:
    """An object with these fields, and rules between them."""
    made = {"type": "object", "description": description, "properties": properties, **more}
    made |= {"required": [*required]} if required else {}
    return made | ({"x-kubernetes-validations": [*rules]} if rules else {})


def rule(expression: str, message: str) -> Schema:
    """What must hold between fields, in CEL."""
    return {"rule": expression, "message": message}


POD = record(
    "The pod to be moved.",
    {
        "name": name("Its name; it is in the Migration's own namespace."),
        "uid": text(
            "Its uid: another pod of the same name is left alone.", minLength=1, maxLength=63
        ),
    },
    required=("name", "uid"),
)

SPEC = record(
    "What is asked for.",
    {
        "pod": POD,
        "targetNode": name("The node it is to run on."),
        "mode": one_of(
            Mode,
            "How to move it. Handoff: the new pod is Ready before the old one goes. Evict: the old "
            "pod goes first. Recreate: a copy of a pod that has no controller. Auto: the gentlest "
            "that fits.",
            default=str(Mode.AUTO),
        ),
        "reason": text("Why, in a sentence."),
        "strategy": text("The strategy that asked for it; none if a person did.", maxLength=63),
        "timeoutSeconds": number(
            "How long each step may take; the controller's policy says if this does not.",
            minimum=1,
            maximum=LONGEST_WAIT,
        ),
        "paused": {
            "type": "boolean",
            "description": "Wait. What has been begun is undone, unless it is past undoing.",
        },
        "ttlSecondsAfterFinished": number(
            "How long it is kept after it has finished; the controller's policy says if this "
            "does not."
        ),
    },
    required=("pod", "targetNode"),
    rules=(
        rule("self.pod == oldSelf.pod", "another pod is another Migration: make a new one"),
        rule(
            "self.targetNode == oldSelf.targetNode",
            "another target is another Migration: make a new one",
        ),
        rule("self.mode == oldSelf.mode", "the mode cannot be changed: make a new Migration"),
    ),
)

WORKLOAD = record(
    "Whose pod it is, as it was when the migration began.",
    {
        "kind": text("Its kind."),
        "name": text("Its name."),
        "uid": text("Its uid."),
        "replicas": number("How many pods it wanted."),
        "templateHash": text("The version of its template that the pod was made from."),
    },
)

CONDITION = record(
    "Something that happened.",
    {
        "type": text("What.", minLength=1, maxLength=316),
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": text("A word for why.", maxLength=1024),
        "message": text("A sentence."),
        "lastTransitionTime": moment("When."),
    },
    required=("type", "status"),
)

STATUS = record(
    "How it goes.",
    {
        "phase": one_of(Phase, "How far it is.", default=str(Phase.PENDING)),
        "step": one_of(Step, "What it is doing."),
        "mode": one_of(Mode, "The way that was chosen."),
        "attempts": number("How often it was begun."),
        "failures": number("How often it failed and was undone."),
        "sourceNode": text("The node that the pod leaves."),
        "newPod": text("The pod that takes the old one's place."),
        "newNode": text("Where that pod is."),
        "workload": WORKLOAD,
        "outcome": one_of(Outcome, "Where the move ended."),
        "steered": {
            "type": "boolean",
            "description": "Whether the scheduler was told where an evicted pod's replacement "
            "should go.",
        },
        "message": text("What happens or happened, for people."),
        "afterUndoing": one_of(Phase, "What it will be when all is undone."),
        "stepStartedAt": moment("When the step began."),
        "retryAt": moment("Not before this it is tried again."),
        "finishedAt": moment("When it finished."),
        "conditions": {
            "type": "array",
            "maxItems": 32,
            "items": CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
    default={"phase": str(Phase.PENDING), "message": "waits for its turn"},
    rules=(
        rule(
            "!(oldSelf.phase in ['Completed', 'Failed', 'Cancelled']) "
            "|| self.phase == oldSelf.phase",
            "a migration that has finished stays finished",
        ),
        rule(
            "self.phase != 'InProgress' || (has(self.step) && has(self.mode))",
            "a migration in progress has a step and a mode",
        ),
    ),
)


def column(title: str, path: str, description: str, wide: bool = False, **more: Any) -> Schema:
    """A column of `kubectl get`."""
    shown = {"name": title, "type": "string", "jsonPath": path, "description": description}
    return shown | ({"priority": 1} if wide else {}) | more


COLUMNS = [
    column("Pod", ".spec.pod.name", "The pod to be moved"),
    column("From", ".status.sourceNode", "The node that it leaves"),
    column("To", ".spec.targetNode", "The node that it is to run on"),
    column("Mode", ".status.mode", "The way that was chosen"),
    column("Phase", ".status.phase", "How far it is"),
    column("Step", ".status.step", "What it is doing"),
    column("Outcome", ".status.outcome", "Where the move ended"),
    column("Age", ".metadata.creationTimestamp", "Since when it exists", type="date"),
    column("Message", ".status.message", "What happens or happened"),
    column("New pod", ".status.newPod", "The pod that takes the old one's place", wide=True),
    column("Steered", ".status.steered", "Was steered", wide=True, type="boolean"),
    column("Attempts", ".status.attempts", "How often it was begun", wide=True, type="integer"),
    column("Reason", ".spec.reason", "Why it is moved", wide=True),
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
                        "A pod being moved to another node.",
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
