# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Names of nodes, pods and contexts that begin with what the user has typed so far.

Whatever goes wrong, there are no suggestions, and no message: the user is in the middle of a line.
"""

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from rescheduler.cli.completion.daemon_threads import DaemonThreads
from rescheduler.errors import ReschedulerError
from rescheduler.kube.auth.kubeconfig import read_kubeconfig
from rescheduler.kube.auth.loader import kubeconfig_files, load_credentials
from rescheduler.kube.client import Client, ClientSettings
from rescheduler.model.names import is_object_name
from rescheduler.model.objects import Part

# Longer, and people think that the shell hangs.
MOST_SECONDS = 3.0
PAGE_SIZE = 500

Options = Mapping[str, Any]
"""The options that the user has given so far."""


class Metadata(Part):
    """The name of an object."""

    name: str = ""


class NamedObject(Part):
    """Anything that has a name."""

    metadata: Metadata = Metadata()


class ListMetadata(Part):
    """How a list goes on."""

    continue_token: str = msgspec.field(name="continue", default="")


class NamedObjects(Part):
    """Some objects of a list."""

    items: tuple[NamedObject, ...] = ()
    metadata: ListMetadata = ListMetadata()


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


def names_at(path: str, options: Options) -> list[str]:
    """Names of the objects there; none if the cluster cannot be asked."""
    try:
        return asyncio.run(names_in_time(path, options))
    except ReschedulerError:
        return []


async def names_in_time(path: str, options: Options) -> list[str]:
    """Names of all objects there, in the cluster that the options name; or of as many as arrive in
    time."""
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    kubeconfig, context = kubeconfig_of(options), options.get("context")
    credentials = load_credentials(kubeconfig, context, silent=True)
    names: list[str] = []
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(MOST_SECONDS),
            Client(credentials, ClientSettings(attempts=1)) as server,
        ):
            query = {"limit": str(PAGE_SIZE)}
            while True:
                page = await server.get(path, NamedObjects, query)
                names += [each.metadata.name for each in page.items]
                if not page.metadata.continue_token:
                    break
                query["continue"] = page.metadata.continue_token
    return names
