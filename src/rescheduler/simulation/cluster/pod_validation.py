"""Which pods, and which changes of pods, the server refuses.

Each function returns the reason as the server words it, or nothing if the pod is accepted.
"""

import re

from rescheduler.simulation.cluster.json_objects import Json, gates_of, is_deleting

MUTABLE_SPEC_FIELDS = (
    "tolerations",
    "activeDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "schedulingGates",
)
"""Fields of a pod's spec that may change, besides images."""
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NOT_A_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN}')"
)


def invalid_pod(pod: Json) -> str:
    """Why a new pod is refused."""
    if pod["spec"].get("nodeName") and gates_of(pod):
        return "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
    return _duplicate_gate(pod)


def invalid_update(old: Json, new: Json) -> str:
    """Why a change of a pod is refused."""
    if old["spec"] is new.get("spec"):
        return ""
    if field := _immutable_field(old["spec"], new.get("spec") or {}):
        return f"spec.{field}: Forbidden: pod updates may not change it"
    return _added_gate(old, new) or _duplicate_gate(new)


def invalid_status(old: Json, new: Json) -> str:
    """Why a change of a pod's status is refused."""
    nominated = new["status"].get("nominatedNodeName")
    if not nominated or nominated == old["status"].get("nominatedNodeName"):
        return ""
    field = "status.nominatedNodeName"
    if not re.fullmatch(_SUBDOMAIN, nominated):
        return f'{field}: Invalid value: "{nominated}": {_NOT_A_SUBDOMAIN}'
    if old["spec"].get("nodeName"):
        return f"{field}: Forbidden: may not be set on pods that are already bound to a node"
    return ""


def unbindable(pod: Json) -> str:
    """Why a binding of a pod is refused."""
    name = pod["metadata"]["name"]
    if is_deleting(pod):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    if gates_of(pod):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _duplicate_gate(pod: Json) -> str:
    gates = gates_of(pod)
    for index, gate in enumerate(gates):
        if gate in gates[:index]:
            return f'spec.schedulingGates[{index}]: Duplicate value: "{gate}"'
    return ""


def _added_gate(old: Json, new: Json) -> str:
    before = gates_of(old)
    for index, gate in enumerate(gates_of(new)):
        if gate not in before:
            return (
                f"spec.schedulingGates[{index}].name: Forbidden: only deletion is allowed, but "
                f"found new scheduling gate '{gate}'"
            )
    return ""


def _immutable_field(before: Json, after: Json) -> str:
    for name in {**before, **after}:
        if name not in MUTABLE_SPEC_FIELDS and before.get(name) != after.get(name):
            if name == "containers" and _without_images(before) == _without_images(after):
                continue
            return str(name)
    return ""


def _without_images(spec: Json) -> list[Json]:
    return [{**container, "image": ""} for container in spec.get("containers") or ()]
