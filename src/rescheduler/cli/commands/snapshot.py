"""`rescheduler snapshot`: write the cluster to a file, to plan from it or to share it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.options import ClusterAccess, Context, Kubeconfig
from rescheduler.files.local_files import STANDARD, output_to

if TYPE_CHECKING:
    from rescheduler.files.anonymizer import Anonymizer
    from rescheduler.kube.api_server import ApiServer
    from rescheduler.model.kinds import Kind

    Encode = Callable[[Kind[Any], Any], bytes]
    Report = Callable[[str], None]

ATTEMPTS = 3


def snapshot(
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Output file; compressed if the name ends in .gz; - means stdout.",
        ),
    ] = STANDARD,
    anonymize: Annotated[
        bool, typer.Option("--anonymize", help="Replace all names, so that the file can be shared.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Write the cluster to a file that `plan --snapshot` can read.

    The file has only what planning needs: no environment variables, images, commands or secrets.
    """
    import asyncio

    anonymizer = new_anonymizer() if anonymize else None
    with output_to(output) as file, progress() as report:
        asyncio.run(write_cluster(file, anonymizer, ClusterAccess(kubeconfig, context), report))
    if anonymizer is not None:
        kept = escaped(", ".join(sorted(anonymizer.kept)))
        print(f"Note: these names were kept, all others replaced: {kept}", file=sys.stderr)


async def write_cluster(
    file: BinaryIO, anonymizer: "Anonymizer | None", access: ClusterAccess, report: "Report"
) -> None:
    """Write all objects, kind by kind and page by page."""
    from datetime import UTC, datetime

    from rescheduler.cli.connection import connect
    from rescheduler.files.cluster_file import LIST_END, list_start
    from rescheduler.model.kinds import KINDS

    async with connect(access) as server:
        file.write(list_start(datetime.now(UTC)))
        writer = SnapshotWriter(file, server, encoder(anonymizer), report)
        for kind in KINDS:
            await writer.write_kind(kind)
        file.write(LIST_END)


class SnapshotWriter:
    """Writes the objects of a cluster to a file, one kind after another.

    A pod may be on a node that was created or deleted after the nodes were listed. Such a pod is
    left out: the file has no pod whose node is missing.
    """

    def __init__(
        self, file: BinaryIO, server: "ApiServer", encode: "Encode", report: "Report"
    ) -> None:
        self._file = file
        self._server = server
        self._encode = encode
        self._report = report
        self._start = file.tell()
        self._nodes = {""}

    async def write_kind(self, kind: "Kind[Any]") -> None:
        """Write all objects of a kind; start again if the API server no longer has the list."""
        from rescheduler.errors import Gone

        start = self._file.tell()
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._write_pages(kind)
            except Gone:
                if attempt == ATTEMPTS:
                    raise
                self._file.seek(start)
                self._file.truncate()
            else:
                return

    async def _write_pages(self, kind: "Kind[Any]") -> None:
        """Write the pages of a list as they arrive."""
        count = 0
        self._report(f"Reading {kind.plural}")
        async with aclosing(self._server.list_pages(kind)) as pages:
            async for page in pages:
                for obj in page.readable():
                    if self._has_its_node(kind, obj):
                        self._write(self._encode(kind, obj))
                count += page.count
                self._report(f"Reading {kind.plural}: {count:,}")

    def _has_its_node(self, kind: "Kind[Any]", obj: Any) -> bool:
        """Whether the node of a pod is in the file; also remembers the nodes."""
        from rescheduler.model.kinds import NODE, POD

        if kind is NODE:
            self._nodes.add(obj.metadata.name)
        return kind is not POD or obj.spec.node_name in self._nodes

    def _write(self, encoded: bytes) -> None:
        if self._file.tell() > self._start:
            self._file.write(b",\n")
        self._file.write(encoded)


def new_anonymizer() -> "Anonymizer":
    """One with a random salt, which nobody learns."""
    import secrets

    from rescheduler.files.anonymizer import Anonymizer

    return Anonymizer(secrets.token_bytes(32))


def encoder(anonymizer: "Anonymizer | None") -> "Encode":
    """How objects are encoded: as they are, or with names replaced."""
    from rescheduler.files.cluster_file import encode_object

    if anonymizer is None:
        return encode_object
    import msgspec

    def encode_anonymized(kind: "Kind[Any]", obj: Any) -> bytes:
        plain = msgspec.json.decode(encode_object(kind, obj))
        return msgspec.json.encode(anonymizer.anonymized(plain))

    return encode_anonymized


@contextmanager
def progress() -> Iterator["Report"]:
    """Show the progress, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda message: None
        return
    from rich.console import Console

    with Console(stderr=True).status("Connecting") as status:
        yield status.update
