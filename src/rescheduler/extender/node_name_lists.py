"""Lists of thousands of node names, read and written without an object for each.

A scheduler may send 5,000 names with every question and wants as many back. To make a string of
each, look it up and write it again would take longer than all the rest, for they and what they are
looked up in are spread all over the memory. So names stay the bytes that they came as, and are
looked up all at once, by a number that stands for each.
"""

import random
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from rescheduler.extender.node_loads import UNKNOWN, Rows
from rescheduler.extender.protocol import HIGHEST_SCORE, BadRequest
from rescheduler.model.tables.object_table import NodeTable

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]

_QUOTE, _COMMA, _BACKSLASH, _BLANK, _LAST_ASCII = b'",\\ \x7f'
_ALL = 2**64
MOST_REMEMBERED = 16


@dataclass(frozen=True, eq=False)
class NodeNames:
    """A JSON list of names without escapes and spaces, and where in it each name is."""

    written: bytes
    starts: Rows
    ends: Rows

    def __len__(self) -> int:
        return len(self.starts)

    def text(self, chosen: Rows) -> list[str]:
        """Some of them as strings."""
        spans = zip(self.starts[chosen].tolist(), self.ends[chosen].tolist(), strict=True)
        return [self.written[start:end].decode() for start, end in spans]

    @cached_property
    def letters(self) -> Bytes:
        """The list as numbers."""
        return np.frombuffer(self.written, np.uint8)

    @property
    def lengths(self) -> Rows:
        """How long the names are."""
        return self.ends - self.starts

    def taken(self, chosen: Rows) -> "NodeNames":
        """A list of some of them, in this order."""
        if not len(chosen):
            return read_names(b"[]")
        lengths = self.lengths[chosen]
        # Each with its quotes and what follows it, which is a comma or the end.
        stretches = lengths + 3
        ends = np.cumsum(stretches)
        letters = self.letters[places(self.starts[chosen] - 1, stretches)]
        letters[ends - 1] = _COMMA
        starts = ends - stretches + 2
        return NodeNames(b"[" + letters.tobytes()[:-1] + b"]", starts, starts + lengths)


def read_names(written: bytes) -> NodeNames:
    """The names in a JSON list."""
    names = _spans(written)
    if names is None:
        names = _spans(_rewritten(written))
    if names is None:
        raise BadRequest("NodeNames: expected names of nodes, found one with other characters")
    return names


def places(starts: Rows, lengths: Rows) -> Rows:
    """The place of every letter of stretches that begin here and are so long."""
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.repeat(starts - before, lengths) + np.arange(int(lengths.sum())))


def _spans(written: bytes) -> NodeNames | None:
    """None unless it is a list of names as Go's encoder writes it, and as names are."""
    letters = np.frombuffer(written, np.uint8)
    quotes = np.flatnonzero(letters == _QUOTE)
    starts, ends = quotes[::2] + 1, quotes[1::2]
    if not len(quotes):
        return NodeNames(written, starts, ends) if written == b"[]" else None
    is_plain = letters.min() > _BLANK and letters.max() <= _LAST_ASCII
    is_list = len(starts) == len(ends) and starts[0] == 2 and written.startswith(b"[")
    if not (is_plain and is_list and written.endswith(b'"]')) or (letters == _BACKSLASH).any():
        return None
    between = ends[:-1] + 1
    if (starts[1:] - ends[:-1] != 3).any() or (letters[between] != _COMMA).any():
        return None
    return NodeNames(written, starts, ends)


def _rewritten(written: bytes) -> bytes:
    """The same list without spaces and needless escapes."""
    try:
        return msgspec.json.encode(msgspec.json.decode(written, type=list[str]))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"NodeNames: expected names of nodes: {error}") from error


# ------------------------------------------------------------ looking names up


@dataclass(frozen=True, eq=False)
class Listed:
    """Nodes by name, and their rows in the table; `UNKNOWN` where there is none."""

    names: NodeNames
    rows: Rows

    def taken(self, chosen: Rows) -> "Listed":
        """Some of them, in this order."""
        return Listed(self.names.taken(chosen), self.rows[chosen])


class NodeLookup:
    """Finds the rows of nodes."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        # Drawn anew each time, so that nobody can think of two names with the same number.
        factor = random.getrandbits(64) | 1
        self._powers = Powers(factor)
        self._inverse_powers = Powers(pow(factor, -1, _ALL))
        self._seen = -1
        self._recent: OrderedDict[bytes, Listed] = OrderedDict()
        self._hashes: Hashes = np.zeros(1, np.uint64)
        self._rows: Rows = np.full(1, UNKNOWN)

    def find(self, written: bytes) -> Listed:
        """The nodes in a JSON list."""
        self._follow()
        recent = self._recent.get(written)
        return self._look_up(read_names(written)) if recent is None else recent

    def remember(self, listed: Listed) -> None:
        """Be prepared to be asked about these nodes, in the very same bytes.

        What a scheduler asks second about a pod is about those that our first answer has named.
        """
        self._recent[listed.names.written] = listed
        if len(self._recent) > MOST_REMEMBERED:
            self._recent.popitem(last=False)

    def _look_up(self, names: NodeNames) -> Listed:
        hashes = self._hashes_of(names)
        found = np.searchsorted(self._hashes, hashes)
        found[found == len(self._hashes)] = 0
        known = self._hashes[found] == hashes
        return Listed(names, np.where(known, self._rows[found], UNKNOWN))

    def _follow(self) -> None:
        """Look at all nodes again if any has come or gone."""
        row_of = self._nodes.row_of
        if self._seen == self._nodes.membership_changes or not row_of:
            return
        self._seen = self._nodes.membership_changes
        self._recent.clear()
        hashes = self._hashes_of(read_names(msgspec.json.encode(list(row_of))))
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        self._rows = np.fromiter(row_of.values(), np.int64, len(row_of))[order]

    def _hashes_of(self, names: NodeNames) -> Hashes:
        """A number for each name: its letters as the digits of a number to an odd base.

        All letters are added up from the first to the last, each times the power that belongs to
        its place in the whole list; what a name adds is then brought down to the first place.
        """
        letters, starts, ends = names.letters, names.starts, names.ends
        total = np.cumsum(letters * self._powers.up_to(len(letters)))
        added = total[ends - 1] - total[starts - 1]
        return np.asarray(added * self._inverse_powers.up_to(len(letters))[starts])


class Powers:
    """The powers of a number, of which only the last 64 bits count."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._powers: Hashes = np.ones(1, np.uint64)

    def up_to(self, count: int) -> Hashes:
        """So many of them, from the zeroth on."""
        if count > len(self._powers):
            factors = np.full(2 * count, self._base, np.uint64)
            factors[0] = 1
            self._powers = np.multiply.accumulate(factors)
        return self._powers[:count]


# ------------------------------------------------------------ scores

_BEFORE = np.frombuffer(b'{"Host":"', np.uint8)
# As long as each other, so that it is plain where the next one begins.
_AFTER = np.array(
    [list(b'","Score":%2d},' % score) for score in range(HIGHEST_SCORE + 1)], np.uint8
)


def write_scores(names: NodeNames, scores: Rows) -> bytes:
    """What the protocol calls a HostPriorityList: each node with its score."""
    if not len(names):
        return b"[]"
    lengths = names.lengths
    before, after = len(_BEFORE), _AFTER.shape[1]
    ends = np.cumsum(lengths + before + after)
    named = ends - after - lengths
    made = np.empty(ends[-1], np.uint8)
    made[(named - before)[:, None] + np.arange(before)] = _BEFORE
    made[places(named, lengths)] = names.letters[places(names.starts, lengths)]
    made[(ends - after)[:, None] + np.arange(after)] = _AFTER[scores]
    return b"[" + made.tobytes()[:-1] + b"]"
