"""One call to the API server, before it is sent."""

from dataclasses import dataclass, field

READS = frozenset({"GET"})


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
