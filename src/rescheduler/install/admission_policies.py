"""ValidatingAdmissionPolicies that hold our own account to what the program writes. Optional.

Roles cannot say which fields of a pod may be patched, or which pods may be created. These policies
can, so that somebody who got hold of our token can do less with it. They look only at requests of
the service account; it has no right to change them.

A rule allows all that the program writes, and as little else as can be told from the object alone.
`tests/install/test_attacks.py` has what each of them stops.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

from rescheduler.extender.webhook.registration import (
    HAS_A_CONTROLLER,
    IS_NO_PART_OF_A_MIGRATION,
    SYSTEM_NAMESPACES,
    WEBHOOK_CONFIGURATION,
)
from rescheduler.install.metadata import CONTROLLER, metadata
from rescheduler.install.rights import group_of
from rescheduler.install.tree import Comment, Tree, Value, When
from rescheduler.labels import (
    ACCEPTED_AT,
    CORDONED_BY,
    CREATED_BY_US,
    DELETION_COST,
    MIGRATION_ID,
    MIGRATION_LABELS,
    NAMESPACE_NAME,
    ORIGINAL_POD,
    PLACING_GATE,
    PREVIOUS_DELETION_COST,
    PREVIOUS_MARKS,
)
from rescheduler.migration.migration_labels import ANNOTATIONS
from rescheduler.migration.migration_object import MIGRATION
from rescheduler.model.kinds import BUDGET, NODE, POD, Kind

POLICY_API = "admissionregistration.k8s.io/v1"

OWN_NAMESPACE = "request.userInfo.username.split(':')[2]"

POD_ANNOTATIONS = (
    *ANNOTATIONS,
    PREVIOUS_MARKS,
    DELETION_COST,
    PREVIOUS_DELETION_COST,
    ACCEPTED_AT,
)
POD_CONDITIONS = ("Ready", CREATED_BY_US)
WRITTEN_BY_THE_SERVER = ("resourceVersion", "generation", "managedFields")

# What the level `baseline` of the Pod Security Standards allows to add.
CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)


@dataclass(frozen=True)
class Rule:
    """What must hold of a request, in CEL, and what the refused one is told."""

    message: str
    expression: str


@dataclass(frozen=True)
class RequestsOf:
    """Requests for one kind of object, or for a subresource of it."""

    kind: Kind[Any]
    operations: Sequence[str]
    subresources: Sequence[str] = ("",)

    @property
    def rule(self) -> dict[str, Any]:
        """As a policy matches them."""
        plural = self.kind.plural
        return {
            "apiGroups": [group_of(self.kind)],
            "apiVersions": ["*"],
            "operations": [*self.operations],
            "resources": [f"{plural}/{sub}" if sub else plural for sub in self.subresources],
        }


@dataclass(frozen=True)
class PolicyDefinition:
    """A policy: every rule must hold of every request that it is about."""

    name: str
    title: str
    requests: Sequence[RequestsOf]
    rules: Sequence[Rule]
    variables: Mapping[str, str] = field(default_factory=dict)
    """CEL that rules, and later variables, refer to as `variables.<name>`."""
    namespaces: Tree = None
    """Only requests in these namespaces, if given."""


def listed(words: Iterable[str]) -> str:
    """A list of texts in CEL."""
    return json.dumps([*words])


def changed(new: str, old: str) -> str:
    """CEL: the keys of two mappings that are in one of them only, or have different values."""
    return (
        f"{new}\n"
        f"  .filter(key, !(key in {old}) || {new}[key] != {old}[key])\n"
        f"+ {old}.filter(key, !(key in {new}))"
    )


def only(changed_keys: str, allowed: Iterable[str]) -> str:
    """CEL: no other keys have changed."""
    return f"variables.{changed_keys}.all(key, key in {listed(allowed)})"


def controller_of(pod: str) -> str:
    """CEL: whether a pod has a controller."""
    return (
        f"{pod}.metadata.?ownerReferences.orValue([])\n"
        "  .exists(owner, owner.?controller.orValue(false))"
    )


def has_our_gate(pod: str) -> str:
    """CEL: whether a pod has the gate that only a pod which is created can have."""
    return (
        f"{pod}.spec.?schedulingGates.orValue([])\n  .exists(gate, gate.name == '{PLACING_GATE}')"
    )


def is_marked(pod: str) -> str:
    """CEL: whether the status of a pod says that a migration has created it."""
    return (
        f"{pod}.?status.conditions.orValue([])\n"
        f"  .exists(condition, condition.type == '{CREATED_BY_US}' && condition.status == 'True')"
    )


def is_new_pod(pod: str) -> str:
    """CEL: whether a migration has provably created a pod, and no workload has adopted it."""
    return f"({has_our_gate(pod)}\n|| {is_marked(pod)})\n&& !{controller_of(pod)}"


# `dyn` because its fields are looked at by their names, whatever they are called in later versions.
CHANGED_METADATA = {
    "metadata": "dyn(object.metadata)",
    "oldMetadata": "dyn(oldObject.metadata)",
    "changedMetadata": changed("variables.metadata", "variables.oldMetadata"),
}
CHANGED_LABELS = {
    "labels": "object.metadata.?labels.orValue({})",
    "oldLabels": "oldObject.metadata.?labels.orValue({})",
    "changedLabels": changed("variables.labels", "variables.oldLabels"),
}
CHANGED_ANNOTATIONS = {
    "annotations": "object.metadata.?annotations.orValue({})",
    "oldAnnotations": "oldObject.metadata.?annotations.orValue({})",
    "changedAnnotations": changed("variables.annotations", "variables.oldAnnotations"),
}
CHANGED_SPEC = {
    "spec": "dyn(object.spec)",
    "oldSpec": "dyn(oldObject.spec)",
    "changedSpec": changed("variables.spec", "variables.oldSpec"),
}
CHANGED_STATUS = {
    "status": "dyn(object.?status.orValue({}))",
    "oldStatus": "dyn(oldObject.?status.orValue({}))",
    "changedStatus": changed("variables.status", "variables.oldStatus"),
}

# ------------------------------------------------------------ where

EXCLUDED_NAMESPACES = PolicyDefinition(
    "rescheduler-excluded-namespaces",
    "The namespaces that `excludedNamespaces` of the policy names: keep both the same.",
    [
        RequestsOf(POD, ("CREATE", "UPDATE", "DELETE"), ("", "status", "eviction", "binding")),
        RequestsOf(MIGRATION, ("CREATE",)),
        RequestsOf(BUDGET, ("CREATE", "DELETE")),
    ],
    [
        Rule(
            "the rescheduler leaves the pods of excluded namespaces alone; "
            f"of a pending one, it may write the annotation {ACCEPTED_AT}",
            "request.operation == 'UPDATE' && request.resource.resource == 'pods'\n"
            "&& request.?subResource.orValue('') == ''\n&& "
            + only("changedMetadata", ("annotations", *WRITTEN_BY_THE_SERVER))
            + "\n&& "
            + only("changedAnnotations", (ACCEPTED_AT,)),
        )
    ],
    variables=CHANGED_METADATA | CHANGED_ANNOTATIONS,
    namespaces=Value("closedNamespaces"),
)

# ------------------------------------------------------------ pods

NEW_PODS = PolicyDefinition(
    "rescheduler-new-pods",
    "The new pods of moves. Privileged ones cannot be handed over: they stay, or are evicted.",
    [RequestsOf(POD, ("CREATE",))],
    [
        Rule(
            "the rescheduler creates no pod in its own namespace: "
            "it could pass for one of its own, behind the Service of its webhook",
            f"request.namespace != {OWN_NAMESPACE}",
        ),
        Rule(
            f"a pod that the rescheduler creates has the scheduling gate {PLACING_GATE}",
            has_our_gate("object"),
        ),
        Rule(
            f"a pod that the rescheduler creates has the label {MIGRATION_ID}, "
            f"the annotation {ORIGINAL_POD} and no controller",
            f"object.metadata.?labels['{MIGRATION_ID}'].orValue('') != ''\n"
            f"&& '{ORIGINAL_POD}' in object.metadata.?annotations.orValue({{}})\n"
            f"&& !{controller_of('object')}",
        ),
        Rule(
            "a pod that the rescheduler creates shares no namespace of its node, "
            "and mounts no path of it",
            dedent("""\
                !object.spec.?hostNetwork.orValue(false)
                && !object.spec.?hostPID.orValue(false)
                && !object.spec.?hostIPC.orValue(false)
                && !object.spec.?volumes.orValue([]).exists(volume, has(volume.hostPath))"""),
        ),
        Rule(
            "a pod that the rescheduler creates is not privileged, has no port of its node, "
            f"and adds no capability but {', '.join(CAPABILITIES)}",
            dedent(f"""\
                !object.spec.?securityContext.windowsOptions.hostProcess.orValue(false)
                && [
                  object.spec.containers,
                  object.spec.?initContainers.orValue([])
                ].all(containers, containers.all(container,
                  !container.?securityContext.privileged.orValue(false)
                  && !container.?securityContext.windowsOptions.hostProcess.orValue(false)
                  && container.?securityContext.procMount.orValue('Default') == 'Default'
                  && container.?securityContext.capabilities.add.orValue([])
                    .all(added, added in {listed(CAPABILITIES)})
                  && container.?ports.orValue([])
                    .all(port, port.?hostPort.orValue(0) == 0)
                ))"""),
        ),
    ],
)
CHANGED_PODS = PolicyDefinition(
    "rescheduler-changed-pods",
    "Marks of a migration, and the gate of its new pod.",
    [RequestsOf(POD, ("UPDATE",))],
    [
        Rule(
            "of the spec of a pod, the rescheduler changes only the scheduling gates",
            only("changedSpec", ("schedulingGates",)),
        ),
        Rule(
            f"the rescheduler opens no scheduling gate but {PLACING_GATE}",
            dedent(f"""\
                oldObject.spec.?schedulingGates.orValue([]).all(gate,
                  gate.name == '{PLACING_GATE}'
                  || object.spec.?schedulingGates.orValue([]).exists(left, left.name == gate.name)
                )"""),
        ),
        Rule(
            f"of the labels of a pod, the rescheduler changes only {', '.join(MIGRATION_LABELS)}; "
            "all labels only of a pod that it has created and no workload has adopted",
            only("changedLabels", MIGRATION_LABELS) + " || variables.isNewPod",
        ),
        Rule(
            "of the annotations of a pod, the rescheduler changes only its own, "
            f"and {DELETION_COST}",
            only("changedAnnotations", POD_ANNOTATIONS),
        ),
        Rule(
            "of the metadata of a pod, the rescheduler changes only labels and annotations",
            only("changedMetadata", ("labels", "annotations", *WRITTEN_BY_THE_SERVER)),
        ),
    ],
    variables={
        **CHANGED_SPEC,
        **CHANGED_METADATA,
        **CHANGED_LABELS,
        **CHANGED_ANNOTATIONS,
        "isNewPod": is_new_pod("oldObject"),
    },
)
POD_STATUS = PolicyDefinition(
    "rescheduler-pod-status",
    "A pod leaves its Services and comes back; a new one is marked, and nominated to its target.",
    [RequestsOf(POD, ("UPDATE",), ("status",))],
    [
        Rule(
            "of the status of a pod, the rescheduler changes only nominatedNodeName and the "
            f"conditions {' and '.join(POD_CONDITIONS)}",
            only("changedStatus", ("conditions", "nominatedNodeName"))
            + dedent(f"""
                && variables.conditions
                  .filter(condition, !(condition.type in {listed(POD_CONDITIONS)}))
                == variables.oldConditions
                  .filter(condition, !(condition.type in {listed(POD_CONDITIONS)}))"""),
        ),
        Rule(
            "the rescheduler makes no pod Ready whose containers are not",
            dedent("""\
                variables.conditions.all(condition,
                  condition.type != 'Ready' || condition.status != 'True'
                  || condition in variables.oldConditions
                ) || variables.conditions.exists(condition,
                  condition.type == 'ContainersReady' && condition.status == 'True'
                )"""),
        ),
        Rule(
            f"the rescheduler nominates only pods with the scheduling gate {PLACING_GATE}",
            "!has(object.status.nominatedNodeName)\n"
            "|| object.status.nominatedNodeName\n"
            "  == oldObject.status.?nominatedNodeName.orValue('')\n"
            f"|| {has_our_gate('object')}",
        ),
        Rule(
            "the rescheduler marks only pods as created by a migration that have the scheduling "
            f"gate {PLACING_GATE}",
            f"!{is_marked('object')}\n|| {is_marked('oldObject')}\n|| {has_our_gate('object')}",
        ),
        Rule(
            "with the status of a pod, the rescheduler changes no metadata",
            only("changedMetadata", WRITTEN_BY_THE_SERVER),
        ),
    ],
    variables={
        **CHANGED_STATUS,
        **CHANGED_METADATA,
        "conditions": "object.status.?conditions.orValue([])",
        "oldConditions": "oldObject.?status.conditions.orValue([])",
    },
)
DELETED_PODS = PolicyDefinition(
    "rescheduler-deleted-pods",
    "New pods of moves that are undone.",
    [RequestsOf(POD, ("DELETE",))],
    [
        Rule(
            "the rescheduler deletes only pods that it has created and no workload has adopted",
            is_new_pod("oldObject"),
        )
    ],
)

# ------------------------------------------------------------ everything else

NODES = PolicyDefinition(
    "rescheduler-nodes",
    "Nodes under maintenance are cordoned, and uncordoned afterwards.",
    [RequestsOf(NODE, ("UPDATE",))],
    [
        Rule(
            "of the spec of a node, the rescheduler changes only unschedulable",
            only("changedSpec", ("unschedulable",)),
        ),
        Rule(
            f"of the metadata of a node, the rescheduler changes only the annotation {CORDONED_BY}",
            only("changedMetadata", ("annotations", *WRITTEN_BY_THE_SERVER))
            + "\n&& "
            + only("changedAnnotations", (CORDONED_BY,)),
        ),
        Rule(
            f"the rescheduler cordons a node with the annotation {CORDONED_BY}, "
            "and uncordons only what it has cordoned",
            dedent("""\
                (!variables.isOurs || variables.wasOurs || !variables.wasCordoned)
                && (!variables.isCordoned || variables.wasCordoned || variables.isOurs)
                && (!variables.wasCordoned || variables.isCordoned || variables.wasOurs)"""),
        ),
    ],
    variables={
        **CHANGED_SPEC,
        **CHANGED_METADATA,
        **CHANGED_ANNOTATIONS,
        "isCordoned": "object.spec.?unschedulable.orValue(false)",
        "wasCordoned": "oldObject.spec.?unschedulable.orValue(false)",
        "isOurs": f"'{CORDONED_BY}' in variables.annotations",
        "wasOurs": f"'{CORDONED_BY}' in variables.oldAnnotations",
    },
)
MIGRATIONS = PolicyDefinition(
    "rescheduler-migrations",
    "Migrations as they are planned. People may create others.",
    [RequestsOf(MIGRATION, ("CREATE",))],
    [
        Rule(
            "a Migration that the rescheduler creates names its strategy, and has the limits of "
            "the policy: neither timeoutSeconds, ttlSecondsAfterFinished nor paused",
            dedent("""\
                object.spec.?strategy.orValue('') != ''
                && !has(object.spec.timeoutSeconds)
                && !has(object.spec.ttlSecondsAfterFinished)
                && !object.spec.?paused.orValue(false)"""),
        )
    ],
)
BUDGETS = PolicyDefinition(
    "rescheduler-disruption-budgets",
    "Temporary budgets of migrations.",
    [RequestsOf(BUDGET, ("CREATE", "DELETE"))],
    [
        Rule(
            f"the disruption budgets of the rescheduler have the label {MIGRATION_ID}, "
            "and it deletes no others",
            dedent(f"""\
                (request.operation == 'DELETE' ? oldObject : object)
                  .metadata.?labels['{MIGRATION_ID}'].orValue('') != ''"""),
        )
    ],
)
WEBHOOK = PolicyDefinition(
    "rescheduler-webhook",
    "The webhook is asked about few pods, at its own Service, and never holds one up.",
    [RequestsOf(WEBHOOK_CONFIGURATION, ("CREATE", "UPDATE"))],
    [
        Rule(
            "the webhook of the rescheduler is reached at its own Service",
            dedent(f"""\
                object.?webhooks.orValue([]).all(webhook,
                  webhook.clientConfig.?service.namespace.orValue('') == {OWN_NAMESPACE}
                  && webhook.clientConfig.?service.name.orValue('') == '{CONTROLLER}'
                )"""),
        ),
        Rule(
            "without an answer of the rescheduler within a second, pods are created as they are",
            dedent("""\
                object.?webhooks.orValue([]).all(webhook,
                  webhook.failurePolicy == 'Ignore' && webhook.timeoutSeconds == 1
                )"""),
        ),
        Rule(
            "the webhook of the rescheduler is asked only about new pods of a controller",
            dedent(f"""\
                object.?webhooks.orValue([]).all(webhook,
                  webhook.?rules.orValue([]).all(rule,
                    rule.apiGroups == [''] && rule.resources == ['pods']
                    && rule.operations == ['CREATE']
                  )
                  && {listed([HAS_A_CONTROLLER, IS_NO_PART_OF_A_MIGRATION])}.all(expected,
                    webhook.?matchConditions.orValue([])
                      .exists(condition, condition.expression == expected)
                  )
                )"""),
        ),
        Rule(
            f"the webhook of the rescheduler is not asked in {', '.join(SYSTEM_NAMESPACES)} and "
            "its own namespace",
            dedent(f"""\
                object.?webhooks.orValue([]).all(webhook,
                  webhook.?namespaceSelector.matchExpressions.orValue([]).exists(selected,
                    selected.key == '{NAMESPACE_NAME}' && selected.operator == 'NotIn'
                    && ({listed(SYSTEM_NAMESPACES)} + [{OWN_NAMESPACE}])
                      .all(excluded, excluded in selected.?values.orValue([]))
                  )
                )"""),
        ),
    ],
)

POLICIES = (
    EXCLUDED_NAMESPACES,
    NEW_PODS,
    CHANGED_PODS,
    POD_STATUS,
    DELETED_PODS,
    NODES,
    MIGRATIONS,
    BUDGETS,
)
"""All but `WEBHOOK`, which not every installation has."""


def admission_policies() -> list[Tree]:
    """Every policy, each with its binding."""
    objects = [each for definition in POLICIES for each in policy_and_binding(definition)]
    return [*objects, {When("extender"): policy_and_binding(WEBHOOK)}]


def policy_and_binding(definition: PolicyDefinition) -> list[Tree]:
    """A policy, and the binding that puts it into force."""
    named = metadata(definition.name, CONTROLLER, is_namespaced=False)
    policy = {
        Comment(definition.title): None,
        "apiVersion": POLICY_API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": named,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": constraints(definition),
            "matchConditions": [{"name": "own-requests", "expression": Value("ownRequests")}],
            **({"variables": expressions(definition.variables)} if definition.variables else {}),
            "validations": [
                {"message": rule.message, "expression": rule.expression}
                for rule in definition.rules
            ],
        },
    }
    binding = {
        "apiVersion": POLICY_API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": named,
        "spec": {"policyName": definition.name, "validationActions": ["Deny", "Audit"]},
    }
    return [policy, binding]


def constraints(definition: PolicyDefinition) -> dict[str, Tree]:
    """The requests that the API server asks a policy about, before any CEL."""
    rules = {"resourceRules": [requests.rule for requests in definition.requests]}
    if definition.namespaces is None:
        return rules
    one_of = {"key": NAMESPACE_NAME, "operator": "In", "values": definition.namespaces}
    return rules | {"namespaceSelector": {"matchExpressions": [one_of]}}


def expressions(named: Mapping[str, str]) -> list[dict[str, str]]:
    """CEL by name, as a list."""
    return [{"name": name, "expression": expression} for name, expression in named.items()]
