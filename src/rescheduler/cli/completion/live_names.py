# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Names of nodes, pods and contexts that begin with what the user has typed so far.

Whatever goes wrong, there are no suggestions, and no message: the user is in the middle of a line.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rescheduler.errors import ReschedulerError
from rescheduler.kube.auth.kubeconfig import read_kubeconfig
from rescheduler.kube.auth.loader import kubeconfig_files, load_credentials
from rescheduler.kube.client import Client, ClientSettings
from rescheduler.model.names import is_object_name
from rescheduler.model.objects import Part

# Longer, and people think that the shell hangs.
MOST_SECONDS = 3.0
MOST_NAMES = 500

Options = Mapping[str, Any]
"""The options that the user has given so far."""


class Metadata(Part):
    """The name of an object."""

    name: str = ""


class NamedObject(Part):
    """Anything that has a name."""

    metadata: Metadata = Metadata()


class NamedObjects(Part):
    """The first objects of a list."""

    items: tuple[NamedObject, ...] = ()


def nodes(options: Options, incomplete: str) -> list[str]:
    """Nodes of the cluster."""
    return [name for name in names_at("/api/v1/nodes", options) if name.startswith(incomplete)]


def pods(options: Options, incomplete: str) -> list[str]:
    """Namespaces and, once only one can be meant, the pods in it, as NAMESPACE/NAME.

    A namespace is never the only suggestion: shells put a space behind that, and nobody wants to
    delete it to go on with the pod.
    """
    namespace, slash, _ = incomplete.partition("/")
    if not slash:
        found = names_at("/api/v1/namespaces", options)
        namespaces = [name for name in found if name.startswith(incomplete)]
        if len(namespaces) != 1:
            return [f"{name}/" for name in namespaces]
        namespace = namespaces[0]
    elif not is_object_name(namespace):
        return []
    names = names_at(f"/api/v1/namespaces/{namespace}/pods", options)
    return [key for name in names if (key := f"{namespace}/{name}").startswith(incomplete)]


def contexts(options: Options, incomplete: str) -> list[str]:
    """Contexts of the kubeconfig."""
    try:
        found = read_kubeconfig(kubeconfig_files(kubeconfig_of(options), os.environ))
    except ReschedulerError:
        return []
    names = found.contexts if found is not None else ()
    return [name for name in names if name.startswith(incomplete)]


def kubeconfig_of(options: Options) -> Path | None:
    """The file that the user has named. During completion, typer leaves options as text."""
    given = options.get("kubeconfig")
    return Path(given) if given else None


def names_at(path: str, options: Options) -> Iterator[str]:
    """Names of the objects there; none if the cluster cannot be asked."""
    try:
        found = asyncio.run(objects_at(path, options))
    except (ReschedulerError, TimeoutError):
        return
    yield from (each.metadata.name for each in found.items)


async def objects_at(path: str, options: Options) -> NamedObjects:
    """The first objects there, in the cluster that the options name."""
    credentials = load_credentials(kubeconfig_of(options), options.get("context"))
    settings = ClientSettings(attempts=1)
    async with asyncio.timeout(MOST_SECONDS), Client(credentials, settings) as server:
        return await server.get(path, NamedObjects, {"limit": str(MOST_NAMES)})
