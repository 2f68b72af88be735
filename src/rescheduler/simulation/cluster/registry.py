"""Creates, changes and deletes objects by the rules of the API server.

Calls take effect at once. The simulated controllers, kubelets and scenarios call it directly;
`api_server` offers it through the interface of a server.
"""

import uuid
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

from rescheduler.migration.memory.move_record_crd import ALL_CRDS
from rescheduler.migration.new_pod import NAME_CHARACTERS, SUFFIX_LENGTH
from rescheduler.simulation.cluster import status_errors
from rescheduler.simulation.cluster.crd_schema import Schema, SchemaViolation
from rescheduler.simulation.cluster.indexes import Indexes
from rescheduler.simulation.cluster.json_objects import (
    Json,
    SelectorCache,
    condition,
    format_time,
    is_deleting,
    is_finished,
    key_of,
    with_conditions,
    without_nomination,
)
from rescheduler.simulation.cluster.object_store import ObjectStore
from rescheduler.simulation.cluster.pod_admission import (
    DEFAULT_GRACE_SECONDS,
    status_of_new_pod,
    with_pod_defaults,
    without_empty_gates,
)
from rescheduler.simulation.cluster.pod_validation import (
    invalid_pod,
    invalid_status,
    invalid_update,
    unbindable,
)
from rescheduler.simulation.cluster.resources import Resource, resource_named
from rescheduler.simulation.simulated_time import SimulatedClock

Update = Callable[[Json], Json]

IMMUTABLE_METADATA = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
)
SCHEMAS = {
    crd["spec"]["names"]["kind"]: Schema(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    for crd in ALL_CRDS
}
"""The schemas of custom resources by kind."""
EVENT_TTL = timedelta(hours=1)


class Registry:
    """All writes to a store: the server's own rules, and the writes of controllers."""

    def __init__(
        self, store: ObjectStore, indexes: Indexes, clock: SimulatedClock, chance: Random
    ) -> None:
        self.store = store
        self.indexes = indexes
        self.selectors = SelectorCache()
        self._clock = clock
        self._chance = chance

    def now(self) -> str:
        """The simulated time as objects have it."""
        return format_time(self._clock.now())

    def new_uid(self) -> str:
        """A random uid."""
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    def suffix(self) -> str:
        """The random suffix of a generated name."""
        return "".join(self._chance.choices(NAME_CHARACTERS, k=SUFFIX_LENGTH))

    # ------------------------------------------------------------ reading

    def read(self, kind: str, key: str, call: str = "GET") -> Json:
        """An object; `NotFound` if it is not there."""
        found = self.store.get(kind, key)
        if found is None:
            raise status_errors.not_found(call, named(resource_named(kind), key))
        return found

    # ------------------------------------------------------------ creating

    def load(self, value: Json) -> Json:
        """Store an object of the initial cluster, with its status, and with defaults."""
        resource = resource_named(value["kind"])
        metadata = dict(value["metadata"])
        metadata.setdefault("uid", self.new_uid())
        metadata.setdefault("creationTimestamp", self.now())
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        if resource.counts_generations:
            metadata.setdefault("generation", 1)
        loaded = {"apiVersion": resource.api_version, **value, "metadata": metadata}
        if resource.name == "Pod":
            loaded["spec"] = with_pod_defaults(loaded["spec"], self.store)
        if resource.name in SCHEMAS:
            loaded = {**SCHEMAS[resource.name].with_defaults(loaded), "metadata": metadata}
        elif resource.has_status:
            loaded["status"] = loaded.get("status") or self._first_status(resource, loaded)
        return self.store.put(resource.name, key_of(loaded), loaded)

    def create(self, resource: Resource, namespace: str, value: Json) -> Json:
        """Create an object; `AlreadyExists` if there is one of its name."""
        metadata = {**value.get("metadata", {})}
        call = f"POST {resource.plural}"
        if resource.namespaced:
            self._check_namespace(namespace, metadata, call)
            metadata["namespace"] = namespace
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                raise status_errors.invalid(call, resource.name, "metadata.name: Required value")
            metadata["name"] = f"{metadata['generateName']}{self.suffix()}"
        for name in ("deletionTimestamp", "resourceVersion", "managedFields"):
            metadata.pop(name, None)
        metadata |= {"uid": self.new_uid(), "creationTimestamp": self.now()}
        if resource.counts_generations:
            metadata["generation"] = 1
        created = {**value, "apiVersion": resource.api_version, "kind": resource.name}
        created["metadata"] = metadata
        key = key_of(created)
        if self.store.get(resource.name, key) is not None:
            raise status_errors.already_exists(call, named(resource, key))
        created = self._admitted(resource, created, call)
        if resource.name == "Event":
            self._expire_events()
        return self.store.put(resource.name, key, created)

    def _check_namespace(self, namespace: str, metadata: Json, call: str) -> None:
        if not namespace:
            raise status_errors.bad_request(
                call, "an empty namespace may not be set during creation"
            )
        if metadata.get("namespace", namespace) != namespace:
            raise status_errors.bad_request(
                call, "the namespace of the provided object does not match the namespace sent"
            )
        if self.store.get("Namespace", namespace) is None:
            raise status_errors.not_found(call, f'namespaces "{namespace}"')

    def _admitted(self, resource: Resource, value: Json, call: str) -> Json:
        if resource.name == "Pod":
            value["spec"] = with_pod_defaults(value.get("spec") or {}, self.store)
            self._refuse_pod(value, invalid_pod(value), call)
        if resource.name in SCHEMAS:
            value.pop("status", None)
            return self._valid(resource, value, None, call)
        if resource.has_status and resource.name != "Node":
            value["status"] = self._first_status(resource, value)
        return value

    def _first_status(self, resource: Resource, value: Json) -> Json:
        if resource.name == "Pod":
            return status_of_new_pod(value["spec"], self.now())
        return {"phase": "Active"} if resource.name == "Namespace" else {}

    def _refuse_pod(self, pod: Json, why: str, call: str) -> None:
        if why:
            raise status_errors.invalid(call, f'Pod "{pod["metadata"]["name"]}"', why)

    def _valid(self, resource: Resource, value: Json, old: Json | None, call: str) -> Json:
        """A custom resource with defaults, if its schema accepts it."""
        metadata, schema = value["metadata"], SCHEMAS[resource.name]
        value = {**schema.with_defaults(value), "metadata": metadata}
        try:
            schema.check(value, old)
        except SchemaViolation as problem:
            what = f'{resource.name}.rescheduler.dev "{metadata["name"]}"'
            raise status_errors.invalid(call, what, str(problem)) from problem
        return value

    def _expire_events(self) -> None:
        """Events are kept for an hour. The oldest come first in the store."""
        events = self.store.all("Event")
        oldest = format_time(self._clock.now() - EVENT_TTL)
        while events:
            key = next(iter(events))
            if events[key]["metadata"]["creationTimestamp"] >= oldest:
                return
            self.store.remove("Event", key)

    # ------------------------------------------------------------ changing

    def update(
        self,
        resource: Resource,
        key: str,
        change: Update,
        *,
        subresource: str = "",
        call: str = "",
    ) -> Json:
        """Change an object; `Conflict` if the change names another version of it."""
        call = call or f"PATCH {resource.plural}/{key}"
        old = self.read(resource.name, key, call)
        new = self._checked(resource, old, change(old), subresource, call)
        if new == old:
            return old
        if is_deleting(new) and not new["metadata"].get("finalizers") and resource.name != "Pod":
            return self.store.remove(resource.name, key)
        return self.store.put(resource.name, key, new)

    def _checked(
        self, resource: Resource, old: Json, changed: Json, subresource: str, call: str
    ) -> Json:
        self._check_identity(resource, old, changed, call)
        if resource.name == "Pod":
            new = self._checked_pod(old, changed, subresource, call)
        elif subresource == "status":
            new = {**old, "status": changed.get("status") or {}}
        else:
            new = {**changed, "metadata": writable_metadata(old, changed)}
            if resource.has_status:
                new["status"] = old["status"]
        if resource.name in SCHEMAS:
            new = self._valid(resource, new, old, call)
        if resource.counts_generations and new.get("spec") != old.get("spec"):
            generation = old["metadata"].get("generation", 0) + 1
            new["metadata"] = {**new["metadata"], "generation": generation}
        return new

    def _checked_pod(self, old: Json, changed: Json, subresource: str, call: str) -> Json:
        if subresource == "status":
            # Unlike other kinds, pods accept new labels and annotations along with a status.
            metadata = writable_metadata(old, changed, "ownerReferences")
            status = changed.get("status") or {}
            if not status.get("nominatedNodeName"):
                status = without_nomination(status)
            new = {**old, "metadata": metadata, "status": status}
            self._refuse_pod(old, invalid_status(old, new), call)
            return new
        new = {**changed, "metadata": writable_metadata(old, changed), "status": old["status"]}
        self._refuse_pod(old, invalid_update(old, new), call)
        return {**new, "spec": without_empty_gates(new["spec"])}

    def _check_identity(self, resource: Resource, old: Json, changed: Json, call: str) -> None:
        what = named(resource, key_of(old))
        current, named_by_change = old["metadata"], changed.get("metadata") or {}
        version = named_by_change.get("resourceVersion")
        if version and version != current["resourceVersion"]:
            raise status_errors.conflict(
                call,
                what,
                "the object has been modified; please apply your changes to the latest version "
                "and try again",
            )
        if named_by_change.get("uid", current["uid"]) != current["uid"]:
            raise status_errors.invalid(call, what, "metadata.uid: field is immutable")

    def set_status(self, kind: str, key: str, status: Json) -> Json:
        """Write a status, as controllers do."""
        old = self.store.all(kind)[key]
        if status == old.get("status"):
            return old
        return self.store.put(kind, key, {**old, "status": status})

    def set_metadata(self, kind: str, key: str, **changed: Any) -> Json:
        """Write fields of the metadata, as controllers do; None removes one."""
        old = self.store.all(kind)[key]
        metadata = {**old["metadata"], **changed}
        metadata = {name: value for name, value in metadata.items() if value is not None}
        return self.store.put(kind, key, {**old, "metadata": metadata})

    def set_spec(self, kind: str, key: str, **changed: Any) -> Json:
        """Write fields of the spec, as controllers do; the generation goes up."""
        old = self.store.all(kind)[key]
        spec = {**old["spec"], **changed}
        if spec == old["spec"]:
            return old
        metadata = old["metadata"]
        if resource_named(kind).counts_generations:
            metadata = {**metadata, "generation": metadata.get("generation", 0) + 1}
        return self.store.put(kind, key, {**old, "spec": spec, "metadata": metadata})

    # ------------------------------------------------------------ deleting

    def delete(
        self,
        resource: Resource,
        key: str,
        *,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
    ) -> Json:
        """Delete an object: at once, or after its grace period if it is a running pod."""
        call = f"DELETE {resource.plural}/{key}"
        old = self.read(resource.name, key, call)
        self.check_preconditions(resource, old, uid, version, call)
        grace = self._grace(resource, old, grace_seconds)
        if grace == 0 and not old["metadata"].get("finalizers"):
            return self.store.remove(resource.name, key)
        return self._mark_deleted(resource, key, old, grace)

    def check_preconditions(
        self, resource: Resource, old: Json, uid: str, version: str, call: str
    ) -> None:
        """`Conflict` unless the object has this uid and this version, as far as they are given."""
        current = old["metadata"]
        for what, required, actual in (
            ("UID", uid, current["uid"]),
            ("ResourceVersion", version, current["resourceVersion"]),
        ):
            if required and required != actual:
                why = f"the {what} in the precondition ({required}) does not match ({actual})"
                raise status_errors.conflict(call, named(resource, key_of(old)), why)

    def _grace(self, resource: Resource, old: Json, requested: int | None) -> int:
        """The grace period in seconds; 0 for everything but running pods."""
        if resource.name != "Pod" or not old["spec"].get("nodeName") or is_finished(old):
            return 0
        own = old["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
        grace: int = own if requested is None else requested
        if is_deleting(old):
            current: int = old["metadata"].get("deletionGracePeriodSeconds", grace)
            return min(grace, current)
        return grace

    def _mark_deleted(self, resource: Resource, key: str, old: Json, grace: int) -> Json:
        if is_deleting(old) and old["metadata"].get("deletionGracePeriodSeconds") == grace:
            return old
        ends = format_time(self._clock.now() + timedelta(seconds=grace))
        return self.set_metadata(
            resource.name, key, deletionTimestamp=ends, deletionGracePeriodSeconds=grace
        )

    # ------------------------------------------------------------ binding

    def bind(self, key: str, node: str, *, uid: str = "", call: str = "") -> Json:
        """Bind a pod to a node, as a scheduler does."""
        call = call or f"POST pods/{key}/binding"
        pods = resource_named("Pod")
        pod = self.read("Pod", key, call)
        self.check_preconditions(pods, pod, uid, "", call)
        if why := unbindable(pod):
            what = f'pods/binding "{pod["metadata"]["name"]}"'
            raise status_errors.conflict(call, what, why)
        scheduled = condition("PodScheduled", "True", self.now())
        status = without_nomination(with_conditions(pod["status"], [scheduled]))
        spec = {**pod["spec"], "nodeName": node}
        return self.store.put("Pod", key, {**pod, "spec": spec, "status": status})


def writable_metadata(old: Json, changed: Json, *immutable: str) -> Json:
    """The metadata of a changed object, with what cannot be written as it was."""
    metadata = {**changed["metadata"]}
    for name in (*IMMUTABLE_METADATA, "resourceVersion", *immutable):
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
        else:
            metadata.pop(name, None)
    return metadata


def named(resource: Resource, key: str) -> str:
    """An object as the server's messages name it: `pods "web-1"`."""
    group = resource.api_version.partition("/")[0] if "/" in resource.api_version else ""
    plural = f"{resource.plural}.{group}" if group else resource.plural
    return f'{plural} "{key.rpartition("/")[2]}"'
