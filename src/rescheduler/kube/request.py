"""One call to the API server, before it is sent."""

from dataclasses import dataclass, field

READS = frozenset({"GET"})
VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
GROUP_PARTS = {"api": 1, "apis": 2}
"""How many parts of a path name the group and its version."""


@dataclass(frozen=True)
class Request:
    """What is asked. As text it is the verb and the path, which is how errors name it."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_read(self) -> bool:
        """Whether asking twice changes nothing."""
        return self.method in READS

    @property
    def is_watch(self) -> bool:
        """Whether its answer goes on until somebody ends it."""
        return self.query.get("watch") == "true"

    @property
    def verb(self) -> str:
        """What rules about rights call it: get, list, watch, create, patch or delete."""
        if self.is_watch:
            return "watch"
        if self.method != "GET":
            return VERBS.get(self.method, self.method.lower())
        return "list" if self.resource and not self._parts[1:] else "get"

    @property
    def resource(self) -> str:
        """What it is about, such as `pods` or `pods/eviction`; empty if it is no object."""
        resource, *rest = self._parts or ("",)
        return "/".join([resource, *rest[1:]])

    @property
    def _parts(self) -> list[str]:
        """The parts of its path from the resource on: resource, name, subresource."""
        root, *parts = self.path.strip("/").split("/")
        if root not in GROUP_PARTS:
            return []
        parts = parts[GROUP_PARTS[root] :]
        # `namespaces/shop` itself is an object of the resource `namespaces`.
        return parts[2:] if parts[:1] == ["namespaces"] and len(parts) > 2 else parts
