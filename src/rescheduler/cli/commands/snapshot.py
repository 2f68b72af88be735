"""`rescheduler snapshot`: the cluster into a file, to plan from or to share."""

import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from rescheduler.cli.options import Context, Kubeconfig
from rescheduler.files.local_files import STANDARD, output_to

if TYPE_CHECKING:
    from rescheduler.kube.api_server import ApiServer
    from rescheduler.model.kinds import Kind

    Encode = Callable[[Kind[Any], Any], bytes]
    Belongs = Callable[[Kind[Any], Any], bool]
    Report = Callable[[str], None]

ATTEMPTS = 3


def snapshot(
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to; packed if it ends in .gz. - is stdout.",
        ),
    ] = STANDARD,
    anonymize: Annotated[
        bool, typer.Option("--anonymize", help="Rename everything, for sharing with others.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Write the cluster to a file that `plan --snapshot` reads.

    Only what planning needs is written: no environment variables, images, commands or secrets.
    """
    import asyncio

    with output_to(output) as file, progress() as report:
        asyncio.run(write_cluster(file, anonymize, kubeconfig, context, report))


async def write_cluster(
    file: BinaryIO,
    anonymize: bool,
    kubeconfig: Path | None,
    context: str | None,
    report: "Report",
) -> None:
    """Write every kind, one after the other, a page at a time."""
    from rescheduler.cli.connection import connected
    from rescheduler.files.cluster_file import LIST_END, LIST_START
    from rescheduler.model.kinds import KINDS

    encode = encoder(anonymize)
    belongs = belonging_together()
    async with connected(kubeconfig, context) as server:
        file.write(LIST_START)
        for kind in KINDS:
            await write_kind(file, server, kind, encode, belongs, report)
        file.write(LIST_END)


def belonging_together() -> "Belongs":
    """Whether an object fits what came before it.

    Kinds are listed one after another, so a pod may be bound to a node that came or went in
    between. Such a pod is left out: the file shows one cluster, and nothing that is not in it.
    """
    from rescheduler.model.kinds import NODE, POD

    nodes = {""}

    def belongs(kind: "Kind[Any]", obj: Any) -> bool:
        if kind is NODE:
            nodes.add(obj.metadata.name)
        return kind is not POD or obj.spec.node_name in nodes

    return belongs


async def write_kind(
    file: BinaryIO,
    server: "ApiServer",
    kind: "Kind[Any]",
    encode: "Encode",
    belongs: "Belongs",
    report: "Report",
) -> None:
    """Write all objects of a kind; if the server loses its place in the list, start it again."""
    from rescheduler.errors import Gone

    start = file.tell()
    for attempt in range(1, ATTEMPTS + 1):
        try:
            await write_pages(file, server, kind, encode, belongs, report)
        except Gone:
            if attempt == ATTEMPTS:
                raise
            file.seek(start)
            file.truncate()
        else:
            return


async def write_pages(
    file: BinaryIO,
    server: "ApiServer",
    kind: "Kind[Any]",
    encode: "Encode",
    belongs: "Belongs",
    report: "Report",
) -> None:
    """Write the pages of one list as they arrive."""
    from rescheduler.files.cluster_file import LIST_START

    count = 0
    report(f"Reading {kind.plural}")
    async with aclosing(server.list_pages(kind)) as pages:
        async for page in pages:
            for obj in page.objects:
                if not belongs(kind, obj):
                    continue
                if file.tell() > len(LIST_START):
                    file.write(b",\n")
                file.write(encode(kind, obj))
            count += page.count
            report(f"Reading {kind.plural}: {count:,}")


def encoder(anonymize: bool) -> "Encode":
    """How objects are written: as they are, or renamed with a salt that nobody will ever know."""
    from rescheduler.files.cluster_file import encode_object

    if not anonymize:
        return encode_object
    import secrets

    import msgspec

    from rescheduler.files.anonymizer import Anonymizer

    anonymizer = Anonymizer(secrets.token_bytes(32))

    def encode_anonymized(kind: "Kind[Any]", obj: Any) -> bytes:
        plain = msgspec.json.decode(encode_object(kind, obj))
        return msgspec.json.encode(anonymizer.anonymized(plain))

    return encode_anonymized


@contextmanager
def progress() -> Iterator["Report"]:
    """Tell how far we are, if someone is watching."""
    if not sys.stderr.isatty():
        yield lambda message: None
        return
    from rich.console import Console

    with Console(stderr=True).status("Connecting") as status:
        yield status.update
