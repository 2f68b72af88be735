"""From the bytes of a file to plain data: packed or not, JSON or YAML."""

import gzip
import math
import os
import re
import zlib
from functools import cache
from io import BytesIO
from typing import Any

from rescheduler.files.bad_document import BadDocument
from rescheduler.files.yaml_limits import check_limits

GZIP_MAGIC = b"\x1f\x8b"

# As `kubectl get -o json` writes them, 15,000 pods of 16 kB are packed to a 40th, and 20,000 that
# differ in nothing but their names to a 100th. gzip can pack what is all the same to a 1,000th.
MOST_TIMES = 250
ALWAYS_BYTES = 64 << 20
# It is decoded, too.
MEMORY_SHARE = 0.5
PART_BYTES = 1 << 20

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Without this, a number is text if it has an exponent and no point: YAML was once that strict, and
# JSON is not.
_EXPONENT = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+")

_JSON_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")


def unpacked(data: bytes) -> bytes:
    """The data itself, or what it was before gzip packed it.

    What no cluster looks like is refused before it fills the memory.
    """
    if not data.startswith(GZIP_MAGIC):
        return data
    packed, content = BytesIO(data), BytesIO()
    try:
        with gzip.GzipFile(fileobj=packed) as file:
            while part := file.read(PART_BYTES):
                content.write(part)
                check_size(packed.tell(), content.tell())
    except (OSError, EOFError, zlib.error) as error:
        raise BadDocument(f"gzip data is broken: {error}") from error
    return content.getvalue()


def check_size(packed_bytes: int, unpacked_bytes: int) -> None:
    """Raise if so much came out of so little, or more than there is memory for."""
    if unpacked_bytes > ALWAYS_BYTES + MOST_TIMES * packed_bytes:
        raise BadDocument(
            f"gzip data: {packed_bytes:,} bytes become more than {unpacked_bytes:,}: expected a "
            f"cluster, which is packed to a {MOST_TIMES}th at best"
        )
    if unpacked_bytes > MEMORY_SHARE * memory_bytes():
        raise BadDocument(
            f"gzip data: more than {unpacked_bytes:,} bytes: expected at most half of the memory "
            "of this machine"
        )


def memory_bytes() -> float:
    """How much memory this machine has, if it says so."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf


def is_json(data: bytes) -> bool:
    """Whether this looks like JSON: every other text is taken for YAML."""
    return _JSON_START.match(data) is not None


def without_byte_order_mark(data: bytes) -> bytes:
    """The data without the mark that some editors put first; JSON may not have it."""
    return data.removeprefix(BYTE_ORDER_MARK)


def text_of(data: bytes) -> str:
    """The data as text, without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise BadDocument(
            f"byte {error.start} is 0x{byte:02x}: expected text encoded as UTF-8"
        ) from error


def yaml_documents(data: bytes, *, with_exponents: bool = False) -> list[Any]:
    """The documents of a YAML text, without empty ones.

    Keys without a value are left out, as Kubernetes does. Times stay text. A key that appears
    twice in a mapping is an error, and so are aliases that stand for far more than was written.
    `1e5` is a number only `with_exponents`: in objects it is rather the name of something.
    """
    import yaml

    text = text_of(data)
    try:
        check_limits(text)
        documents = list(yaml.load_all(text, _loader(with_exponents)))
    except yaml.MarkedYAMLError as error:
        raise BadDocument(_with_line(error)) from error
    # The library's own constructors also raise these, for scalars such as `!!int x`.
    except (
        yaml.YAMLError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise BadDocument(f"YAML is malformed: {error}") from error
    return [document for document in documents if document is not None]


@cache
def _loader(with_exponents: bool) -> Any:
    """The C loader with our rules. Created when first needed: most files are JSON."""
    import yaml

    class Loader(yaml.CSafeLoader):
        """Refuses duplicate keys, leaves out keys without a value, leaves times as text."""

        yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
            for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            # Before merge keys are resolved: what a merge brings in may be overridden.
            self._refuse_duplicates(node)
            mapping = super().construct_mapping(node, deep)
            return {key: value for key, value in mapping.items() if value is not None}

        def _refuse_duplicates(self, node: Any) -> None:
            seen = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if key.value in seen and isinstance(key, yaml.ScalarNode):
                    raise yaml.constructor.ConstructorError(
                        problem=f"the key {key.value!r} appears twice", problem_mark=key.start_mark
                    )
                if isinstance(key, yaml.ScalarNode):
                    seen.add(key.value)

    if with_exponents:
        Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))
    return Loader


def _with_line(error: Any) -> str:
    """The library's message in one line, with the number of the line that it is about."""
    what = " ".join(part for part in (error.context, error.problem) if part)
    mark = error.problem_mark or error.context_mark
    return f"YAML is malformed: line {mark.line + 1}: {what}" if mark else f"YAML: {what}"
