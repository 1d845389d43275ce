"""The knowledge tree: what a model has read, by the path of text before it, so that nothing is read twice.

RAGCache (https://arxiv.org/abs/2404.12457): the keys and values of a passage depend on all that stands before it, so a
node is a piece of text *given its path*. A path of nodes from the root is the beginning of a prompt. Pure:
`replacement.Shelf` knows where the bytes are, and knowledge.py moves them.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from engine.generation.segment import Segment

# Shorter pieces are computed as fast as they are found, and a file, a sequence number and a header each cost more.
MIN_PIECE_TOKENS = 16
# Longer pieces pass through memory in several parts, and a prompt that differs at the end still finds the beginning.
# A passage is shorter.
MAX_PIECE_TOKENS = 320
KEY_BYTES = 16
# For how many nodes the usage is remembered after their eviction, in case they come back.
MAX_REMEMBERED = 20_000
NO_TOKENS: Sequence[int] = ()
NO_DOCUMENTS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens that become one node: a segment or a part of it, or several short ones and the one that follows them.

    It is found by its `digest`, which is computed once: hashing a thousand numbers takes longer than the rest of a
    look-up. Only writing a file needs the tokens themselves; a piece that is in a file drops them, since a tree has
    room for many more nodes without them.
    """

    tokens: Sequence[int] = field(repr=False, compare=False)
    documents: frozenset[int] = NO_DOCUMENTS
    digest: bytes = b""
    num_tokens: int = 0

    def __post_init__(self) -> None:
        if not self.digest:
            tokens = array("i", self.tokens)
            object.__setattr__(self, "tokens", tokens)
            object.__setattr__(self, "digest", digest_of(packed(tokens)))
            object.__setattr__(self, "num_tokens", len(tokens))

    @property
    def has_tokens(self) -> bool:
        return len(self.tokens) == self.num_tokens

    def bare(self) -> Piece:
        """Returns the same piece without its tokens."""
        return replace(self, tokens=NO_TOKENS)


@dataclass(slots=True, eq=False)
class Node:
    """A piece given its path; made and changed by `KnowledgeTree` and its owner.

    `frequency` counts the prompts that had it. `cost_per_token` are the seconds that reading one of its tokens took,
    averaged over the `num_misses` times that it had to be read. While `pins` is not 0, a prompt waits for its bytes or
    they are being moved. `last_used` is a tick of the tree's own clock. A node that `is_missing` has no copy itself,
    but its descendants do: it is found again once it was computed again.
    """

    key: bytes
    parent: Node | None
    piece: Piece
    start: int
    frequency: int = 0
    cost_per_token: float = 0.0
    num_misses: int = 0
    pins: int = 0
    last_used: int = 0
    is_gone: bool = False
    is_missing: bool = False
    children: dict[bytes, Node] = field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        return self.piece.num_tokens

    @property
    def end(self) -> int:
        """The position after the last of its tokens."""
        return self.start + self.piece.num_tokens


class KnowledgeTree:
    """All nodes under one root, which stands for a model, its KV type, and nothing read yet."""

    def __init__(self, root_key: bytes) -> None:
        self.root = Node(root_key, None, Piece(()), 0)
        self._by_key: dict[bytes, Node] = {root_key: self.root}
        self._by_document: dict[int, set[Node]] = {}
        # Frequency, cost and misses of nodes that left, the oldest first.
        self._remembered: dict[bytes, tuple[int, float, int]] = {}
        self._tick = 0

    def __len__(self) -> int:
        """Returns the number of nodes without the root."""
        return len(self._by_key) - 1

    def __iter__(self) -> Iterator[Node]:
        """Yields all nodes but the root, parents before their children."""
        return below(self.root)

    def get(self, key: bytes) -> Node | None:
        return self._by_key.get(key)

    def walk(self, pieces: Iterable[Piece]) -> list[Node]:
        """Returns the nodes along `pieces` from the root on, until the first that is missing."""
        return walk(self.root, pieces)

    def add(self, parent: Node, piece: Piece) -> Node:
        """Returns the child of `parent` that holds `piece`, made if need be; documents of equal texts are merged."""
        node = parent.children.get(piece.digest)
        if node is None:
            node = self._made(key_after(parent.key, piece), parent, piece)
            parent.children[piece.digest] = node
            self._by_key[node.key] = node
        elif not piece.documents <= node.piece.documents:
            node.piece = replace(node.piece, documents=node.piece.documents | piece.documents)
        node.is_missing = False
        for document in piece.documents:
            self._by_document.setdefault(document, set()).add(node)
        return node

    def used(self, node: Node) -> None:
        """Notes that a prompt has this node."""
        self._tick += 1
        node.frequency += 1
        node.last_used = self._tick

    def missed(self, node: Node, seconds_per_token: float) -> None:
        """Notes that it had to be read, at this cost."""
        node.num_misses += 1
        node.cost_per_token += (seconds_per_token - node.cost_per_token) / node.num_misses

    def remove(self, node: Node, remembers: bool = True) -> list[Node]:
        """Takes a node and every path through it out of the tree; returns them, children before their parents.

        Usage of nodes that left for lack of room is remembered: how often a node had to be read shows its cost.
        """
        gone, waiting = [], [node]
        while waiting:
            each = waiting.pop()
            gone.append(each)
            waiting += each.children.values()
        if node.parent is not None:
            node.parent.children.pop(node.piece.digest, None)
        for each in gone:
            if remembers:
                self._remember(each)
            self._forget(each)
        return gone[::-1]

    def documents(self) -> frozenset[int]:
        """Returns all documents of which some node holds text."""
        return frozenset(self._by_document)

    def holders(self, documents: Iterable[int]) -> list[Node]:
        """Returns the nodes that hold text of any of the documents, those nearest to the root first."""
        found = {node for document in documents for node in self._by_document.get(document, ())}
        return sorted(found, key=lambda node: node.start)

    def _made(self, key: bytes, parent: Node, piece: Piece) -> Node:
        frequency, cost, num_misses = self._remembered.pop(key, (0, 0.0, 0))
        return Node(key, parent, piece, parent.end, frequency, cost, num_misses)

    def _remember(self, node: Node) -> None:
        self._remembered[node.key] = node.frequency, node.cost_per_token, node.num_misses
        if len(self._remembered) > MAX_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]

    def _forget(self, node: Node) -> None:
        node.is_gone = True
        node.children.clear()
        self._by_key.pop(node.key, None)
        for document in node.piece.documents:
            holders = self._by_document[document]
            holders.discard(node)
            if not holders:
                del self._by_document[document]


def below(node: Node) -> Iterator[Node]:
    """Yields all descendants of a node, parents before their children."""
    waiting = list(node.children.values())
    while waiting:
        each = waiting.pop()
        yield each
        waiting += each.children.values()


def walk(node: Node, pieces: Iterable[Piece]) -> list[Node]:
    """Returns the nodes after this one along `pieces`, until the first that is missing.

    A node of which only a part is wanted counts as missing.
    """
    path: list[Node] = []
    for piece in pieces:
        child = node.children.get(piece.digest)
        if child is None or child.is_missing:
            break
        path.append(child)
        node = child
    return path


def cut(segments: Sequence[Segment]) -> tuple[Piece, ...]:
    """Returns these segments as one piece, or in parts of `MAX_PIECE_TOKENS`; the last may be a little longer."""
    tokens = [token for segment in segments for token in segment.tokens]
    documents = NO_DOCUMENTS.union(*(segment.documents for segment in segments))
    starts = range(0, max(1, len(tokens) - MIN_PIECE_TOKENS + 1), MAX_PIECE_TOKENS)
    ends = (*starts[1:], len(tokens))
    return tuple(Piece(tokens[start:end], documents) for start, end in zip(starts, ends, strict=True))


def pieces_of(segments: Sequence[Segment], made: Callable[[Sequence[Segment]], Sequence[Piece]] = cut) -> list[Piece]:
    """Cuts a prompt into pieces of at least `MIN_PIECE_TOKENS`; where a piece ends, a segment ends as well.

    A short segment joins the one that follows it, so where a piece ends depends on nothing that comes after: prompts
    with the same beginning have the same pieces. A remainder that is too short becomes no piece. `made` makes pieces of
    each group of segments.
    """
    pieces: list[Piece] = []
    group: list[Segment] = []
    num_tokens = 0
    for segment in segments:
        group.append(segment)
        num_tokens += len(segment.tokens)
        if num_tokens >= MIN_PIECE_TOKENS:
            pieces.extend(made(group))
            group, num_tokens = [], 0
    return pieces


def path_of(node: Node) -> list[Node]:
    """Returns the path from the first node under the root to this one."""
    path: list[Node] = []
    while node.parent is not None:
        path.append(node)
        node = node.parent
    return path[::-1]


def key_after(parent_key: bytes, piece: Piece) -> bytes:
    """Returns the key of a piece after `parent_key`: a hash over the model, the KV type and every token so far.

    The parent's key stands for all that came before, including where pieces end, on which their bytes depend too.
    """
    return digest_of(parent_key + piece.digest)


def packed(tokens: Sequence[int]) -> bytes:
    """Returns the tokens as they are in a file: little-endian, four bytes each."""
    numbers = array("i", tokens)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def digest_of(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=KEY_BYTES).digest()
