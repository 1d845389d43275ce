"""Writes back what of the knowledge tree has no file yet: a little at a time while idle, and at the end all of it.

At the end there may be little time. Then the most valuable nodes are written first, each path from its beginning, so
that whatever has been written by then is of use.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from engine.generation.cache_files import CacheFiles
from engine.generation.kept_bytes import KeptBytes
from engine.generation.knowledge_tree import Node
from engine.generation.replacement import Policy

# Nodes that are looked at in one portion of idle time.
_LOOKED_AT_ONCE = 32


class WriteBack:
    """On the generation thread; `save` copies a node and its path to memory, if there is room."""

    def __init__(self, kept: KeptBytes, files: CacheFiles, policy: Policy, save: Callable[[Node], bool]) -> None:
        self._kept, self._files, self._policy, self._save = kept, files, policy, save
        # Nodes that were used and have no file, as far as is known; and those whose files do not record that use yet.
        # In both, a parent comes before its children.
        self._unwritten: dict[Node, None] = {}
        self._unnoted: dict[Node, None] = {}

    def add(self, node: Node) -> None:
        """The node was used, or has lost its file."""
        if not node.is_gone:
            self._unwritten[node] = None

    def discard(self, node: Node) -> None:
        """The node has gone."""
        self._unwritten.pop(node, None)
        self._unnoted.pop(node, None)

    @property
    def is_behind(self) -> bool:
        """Whether there is something to write that can be written now, or that is being written."""
        return bool(self._kept.num_writing or (self._files.takes_more and (self._unwritten or self._unnoted)))

    def begin(self, limit: int | None) -> int:
        """Begins to write at most `limit` nodes; returns how many. How they were used is noted last."""
        num_begun = 0
        for _ in range(_LOOKED_AT_ONCE):
            if not self._unwritten or num_begun == limit or not self._kept.can_write:
                break
            num_begun += self._write(next(iter(self._unwritten)))
        if not (num_begun or self._kept.num_writing) and self._files.takes_more:
            for _ in range(min(_LOOKED_AT_ONCE, len(self._unnoted))):
                # Children first, so that no parent is older than they are.
                self._kept.note_usage(self._unnoted.popitem()[0])
        return num_begun

    def finish(self, seconds: float) -> None:
        """Writes as much as there is time for."""
        ends_at = self._files.now() + seconds
        # By its worth before the clock of any tier: per token, and so per byte, and so per second of writing.
        for node in sorted(self._unwritten, key=lambda node: self._policy(node, 0.0), reverse=True):
            if node in self._unwritten and not self._write_by(node, ends_at):
                break
        while self._kept.num_writing and (left := ends_at - self._files.now()) > 0:
            self._kept.wait(_bounded(left))
        for node in sorted({**self._unwritten, **self._unnoted}, key=lambda node: node.start, reverse=True):
            self._kept.note_usage(node)

    def _write(self, node: Node) -> bool:
        """Begins to write a node through memory, and removes it from the queue, unless others must be written first.

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
        """Begins to write a node, as soon as the disk takes another one; False where that is too late."""
        while self._files.takes_more and (left := ends_at - self._files.now()) > 0:
            if self._kept.can_write:
                self._write(node)
            if node not in self._unwritten:
                return True
            self._kept.wait(_bounded(left))
        return False


def _bounded(seconds: float) -> float | None:
    """The seconds as `wait` takes them."""
    return None if math.isinf(seconds) else seconds
