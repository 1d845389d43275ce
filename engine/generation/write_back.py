"""Writes nodes of the knowledge tree that have no file yet: a few at a time while idle, and all of them at the end.

At the end there may be little time. Then the most valuable nodes are written first, each path from its beginning, so
that everything written by then is usable.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from engine.generation.cache_files import CacheFiles
from engine.generation.kept_bytes import KeptBytes
from engine.generation.knowledge_tree import Node
from engine.generation.replacement import Policy

# How many nodes are looked at in one portion of idle time.
_LOOKED_AT_ONCE = 32


class WriteBack:
    """Writes nodes, on the generation thread; `save` copies a node and its path to memory, if there is room."""

    def __init__(self, kept: KeptBytes, files: CacheFiles, policy: Policy, save: Callable[[Node], bool]) -> None:
        self._kept, self._files, self._policy, self._save = kept, files, policy, save
        # Nodes that were used and have no file, as far as is known; and nodes whose files do not record their latest
        # use. In both, a parent comes before its children.
        self._unwritten: dict[Node, None] = {}
        self._unnoted: dict[Node, None] = {}

    def add(self, node: Node) -> None:
        """Queues a node that was used, or has lost its file."""
        if not node.is_gone:
            self._unwritten[node] = None

    def discard(self, node: Node) -> None:
        """Forgets a node that is gone."""
        self._unwritten.pop(node, None)
        self._unnoted.pop(node, None)

    @property
    def is_behind(self) -> bool:
        """Whether something can be written now, or is being written."""
        return bool(self._kept.num_writing or (self._files.takes_more and (self._unwritten or self._unnoted)))

    def begin(self, limit: int | None) -> int:
        """Begins to write at most `limit` nodes; returns how many. Usage is recorded once no node is left to write."""
        num_begun = 0
        for _ in range(_LOOKED_AT_ONCE):
            if not self._unwritten or num_begun == limit or not self._kept.can_write:
                break
            num_begun += self._write(next(iter(self._unwritten)))
        if not (num_begun or self._kept.num_writing) and self._files.takes_more:
            for _ in range(min(_LOOKED_AT_ONCE, len(self._unnoted))):
                # Children first, so that no parent has an earlier use than they have.
                self._kept.note_usage(self._unnoted.popitem()[0])
        return num_begun

    def finish(self, seconds: float) -> None:
        """Writes as much as possible in `seconds`."""
        ends_at = self._files.now() + seconds
        # Ordered by the priority without the clock of any tier: value per token, and so per byte and second of writing.
        for node in sorted(self._unwritten, key=lambda node: self._policy(node, 0.0), reverse=True):
            if node in self._unwritten and not self._write_by(node, ends_at):
                break
        while self._kept.num_writing and (left := ends_at - self._files.now()) > 0:
            self._kept.wait(_bounded(left))
        for node in sorted({**self._unwritten, **self._unnoted}, key=lambda node: node.start, reverse=True):
            self._kept.note_usage(node)

    def _write(self, node: Node) -> bool:
        """Begins to write a node through memory, and removes it from the queue unless the disk takes no more now.

        Returns:
            Whether it has begun.
        """
        has_file = node in self._kept.disk
        has_begun = not has_file and (node in self._kept.ram or self._save(node)) and self._kept.write(node)
        if has_file or has_begun or self._kept.can_write:
            self._unwritten.pop(node, None)
        if has_file or has_begun:
            self._unnoted[node] = None
        return has_begun

    def _write_by(self, node: Node, ends_at: float) -> bool:
        """Begins to write a node as soon as the disk takes another one; returns False if that is too late."""
        while self._files.takes_more and (left := ends_at - self._files.now()) > 0:
            if self._kept.can_write:
                self._write(node)
            if node not in self._unwritten:
                return True
            self._kept.wait(_bounded(left))
        return False


def _bounded(seconds: float) -> float | None:
    """Returns the seconds as `wait` takes them: None for no limit."""
    return None if math.isinf(seconds) else seconds
