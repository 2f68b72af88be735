"""Read kubeconfig files, merge them as kubectl does, and choose a context.

The first file that has a cluster, user or context of a name decides all of that entry, and the
first one with a current context decides that. Fields that are not known here are left alone, as in
kubectl. Unlike kubectl, a key that appears twice in one mapping is refused: which one was meant is
a guess, and the values are confidential, so neither of them is shown.
"""

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from rescheduler.errors import CredentialsError
from rescheduler.files.bad_document import BadDocument
from rescheduler.files.conversion import converted
from rescheduler.files.documents import yaml_documents
from rescheduler.files.invalid_value import BadValue, InvalidValue

T = TypeVar("T")

API_VERSION, KIND = "v1", "Config"

# What may be shown in a message when it has the wrong type. Everything else may be, or contain, a
# token, a key or a password.
SHOWN_FIELDS = {
    "apiVersion",
    "as",
    "current-context",
    "disable-compression",
    "insecure-skip-tls-verify",
    "interactiveMode",
    "kind",
    "name",
    "namespace",
    "provideClusterInfo",
    "tls-server-name",
}
TYPE_WORDS = {
    bool: "true or false",
    dict: "a mapping",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "text",
}


class Extension(msgspec.Struct, frozen=True):
    """Something that only other programs know."""

    name: str = ""
    extension: Any = None


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """An API server and how to reach it."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[Extension] = []


class EnvironmentVariable(msgspec.Struct, frozen=True):
    """A variable for an exec plugin."""

    name: str = ""
    value: str = ""


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    """A program that prints credentials."""

    command: str = ""
    args: list[str] = []
    env: list[EnvironmentVariable] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class User(msgspec.Struct, frozen=True, rename="kebab"):
    """How to prove who we are, and whom to act as."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    username: str = ""
    password: str = ""
    auth_provider: Any = None
    exec: Exec | None = None


class Context(msgspec.Struct, frozen=True):
    """Which user of which cluster, by their names."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(msgspec.Struct, frozen=True):
    """An element of `clusters`."""

    name: str = ""
    cluster: Cluster = Cluster()


class NamedUser(msgspec.Struct, frozen=True):
    """An element of `users`."""

    name: str = ""
    user: User = User()


class NamedContext(msgspec.Struct, frozen=True):
    """An element of `contexts`."""

    name: str = ""
    context: Context = Context()


class KubeconfigFile(msgspec.Struct, frozen=True):
    """What is in one file."""

    api_version: str = msgspec.field(default=API_VERSION, name="apiVersion")
    kind: str = KIND
    clusters: list[NamedCluster] = []
    users: list[NamedUser] = []
    contexts: list[NamedContext] = []
    current_context: str = msgspec.field(default="", name="current-context")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A cluster, user or context, with its name and the file that it is in."""

    kind: str
    name: str
    file: Path
    value: T

    def error(self, field: str, what: str) -> CredentialsError:
        """The error for a field that cannot be used."""
        return CredentialsError(f"{self.place(field)}: {what}")

    def place(self, field: str) -> str:
        """Where a field is, for messages."""
        return f"kubeconfig {self.file}: {self.kind} {self.name!r}: {field}"

    def resolved(self, path: str) -> Path:
        """Paths in a kubeconfig are relative to the directory it is in."""
        return Path(os.path.normpath(self.file.absolute().parent / path))

    def readable(self, field: str, path: str) -> Path:
        """The file that a field names, if it can be read."""
        file = self.resolved(path)
        try:
            with file.open("rb") as opened:
                opened.read(1)
        except (OSError, ValueError) as error:
            raise self.error(field, f"{file}: expected a readable file: {reason(error)}") from error
        return file

    def decoded(self, field: str, data: str) -> bytes:
        """What the base64 of a field that ends in `-data` stands for."""
        try:
            return base64.b64decode(data.replace("\n", "").replace("\r", ""), validate=True)
        except ValueError as error:
            raise self.error(field, f"expected base64: {error}") from error


@dataclass(frozen=True)
class ChosenContext:
    """The entries that one context leads to."""

    context: Entry[Context]
    cluster: Entry[Cluster]
    user: Entry[User]
    # All files and the context, for messages.
    source: str


@dataclass(frozen=True)
class Kubeconfig:
    """All files as one."""

    files: Sequence[Path]
    clusters: Mapping[str, Entry[Cluster]]
    users: Mapping[str, Entry[User]]
    contexts: Mapping[str, Entry[Context]]
    current_context: str

    @property
    def source(self) -> str:
        """The files, for messages."""
        return f"kubeconfig {os.pathsep.join(map(str, self.files))}"

    def choose(self, name: str | None) -> ChosenContext:
        """The context of that name, or the current one."""
        context = self._context(name or self.current_context)
        cluster = self.clusters.get(context.value.cluster)
        if cluster is None:
            what = f"no cluster {context.value.cluster!r}; {expected_names(self.clusters)}"
            raise context.error("cluster", what)
        return ChosenContext(
            context, cluster, self._user(context), f"{self.source}, context {context.name!r}"
        )

    def _context(self, name: str) -> Entry[Context]:
        expected = expected_names(self.contexts)
        if not name:
            raise CredentialsError(f"{self.source}: no current context; {expected}")
        if name not in self.contexts:
            raise CredentialsError(f"{self.source}: no context {name!r}; {expected}")
        return self.contexts[name]

    def _user(self, context: Entry[Context]) -> Entry[User]:
        """The user; without one in the context, one with no credentials.

        kubectl asks for a name and a password if the user does not exist. There may be nobody to
        ask here, and to go on without credentials would only hide the mistake.
        """
        name = context.value.user
        if not name:
            return Entry("user", name, context.file, User())
        if name not in self.users:
            raise context.error("user", f"no user {name!r}; {expected_names(self.users)}")
        return self.users[name]


def read_kubeconfig(files: Iterable[Path]) -> Kubeconfig | None:
    """The files merged, those that do not exist left out; None if that is all of them."""
    found = {file: documents for file in files if (documents := read_file(file)) is not None}
    if not found:
        return None
    if not any(found.values()):
        joined = os.pathsep.join(map(str, found))
        raise CredentialsError(f"kubeconfig {joined}: expected a kubeconfig, but it is empty")
    # Of several documents in one file kubectl reads the first, too.
    read = {file: parsed(file, documents[0]) for file, documents in found.items() if documents}
    current = (content.current_context for content in read.values())
    return Kubeconfig(
        files=list(found),
        clusters=merged(clusters_in(file, content) for file, content in read.items()),
        users=merged(users_in(file, content) for file, content in read.items()),
        contexts=merged(contexts_in(file, content) for file, content in read.items()),
        current_context=next(filter(None, current), ""),
    )


def read_file(file: Path) -> list[Any] | None:
    """The documents in a file, or None if it does not exist."""
    try:
        return yaml_documents(file.read_bytes())
    except FileNotFoundError:
        return None
    except BadDocument as error:
        raise CredentialsError(f"kubeconfig {file}: expected YAML: {malformed(error)}") from error
    except (OSError, ValueError) as error:
        raise CredentialsError(
            f"kubeconfig {file}: expected a readable file: {reason(error)}"
        ) from error


def malformed(error: BadDocument) -> str:
    """What is wrong with the YAML. Python's message about a value would show the value."""
    cause = error.__cause__
    about_value = isinstance(cause, (ArithmeticError, AttributeError, LookupError, ValueError))
    if about_value and not isinstance(cause, BadDocument | UnicodeDecodeError):
        return "a value does not fit its tag"
    return str(error)


def parsed(file: Path, document: Any) -> KubeconfigFile:
    """A document that has the form of a kubeconfig."""
    if not isinstance(document, dict):
        raise CredentialsError(
            f"kubeconfig {file}: expected clusters, users and contexts, "
            f"but it is {TYPE_WORDS.get(type(document), 'something else')}"
        )
    try:
        content = converted(document, KubeconfigFile)
    except BadValue as error:
        # Not from the error itself: its text, which a traceback would show, has the value.
        what = without_secrets(error.problem)
        raise CredentialsError(f"kubeconfig {file}: {what}") from error.__cause__
    for field, value, expected in (
        ("apiVersion", content.api_version, API_VERSION),
        ("kind", content.kind, KIND),
    ):
        if value != expected:
            problem = InvalidValue(field, f"expected {expected}", value)
            raise CredentialsError(f"kubeconfig {file}: {problem}")
    return content


def without_secrets(problem: InvalidValue) -> str:
    """Field, value and what was expected; instead of a value that may be confidential, its type."""
    if problem.field in SHOWN_FIELDS and not isinstance(problem.value, dict | list):
        return str(problem)
    type_word = TYPE_WORDS.get(type(problem.value))
    return f"{problem.path}: {problem.what}" + (f", but it is {type_word}" if type_word else "")


def clusters_in(file: Path, content: KubeconfigFile) -> list[Entry[Cluster]]:
    """The clusters of a file."""
    return [Entry("cluster", named.name, file, named.cluster) for named in content.clusters]


def users_in(file: Path, content: KubeconfigFile) -> list[Entry[User]]:
    """The users of a file."""
    return [Entry("user", named.name, file, named.user) for named in content.users]


def contexts_in(file: Path, content: KubeconfigFile) -> list[Entry[Context]]:
    """The contexts of a file."""
    return [Entry("context", named.name, file, named.context) for named in content.contexts]


def merged(files: Iterable[list[Entry[T]]]) -> dict[str, Entry[T]]:
    """The entries by name; the first file with a name decides. In one file, a name is unique."""
    found: dict[str, Entry[T]] = {}
    for entries in files:
        of_file: dict[str, Entry[T]] = {}
        for entry in entries:
            if entry.name in of_file:
                raise entry.error("name", "appears twice in this file, expected it once")
            of_file[entry.name] = entry
        found = of_file | found
    return found


def expected_names(entries: Mapping[str, Entry[Any]]) -> str:
    """Which names there are, for messages."""
    return f"expected one of: {', '.join(entries)}" if entries else "there are none"


def reason(error: Exception) -> str:
    """Why a file could not be read."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
