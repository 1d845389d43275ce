"""Turns cache files into nodes as they are found: a file that is found before its parent's waits for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from engine.generation.cache_files import CacheFile, CacheFiles
from engine.generation.knowledge_tree import KnowledgeTree, Node

HoldFile = Callable[[Node, CacheFile], None]


class FoundFiles:
    """The files of one tree's root on their way into the tree; on the generation thread.

    `is_complete` once all files are found and in the tree. Those whose path has a gap are useless then, and deleted.
    A file that cannot be opened now may be the gap: then they are left for the next start.
    """

    def __init__(self, tree: KnowledgeTree, files: CacheFiles, hold: HoldFile) -> None:
        """Takes in all files that are known by now."""
        self._tree, self._files, self._hold = tree, files, hold
        self._without_parent: dict[bytes, list[CacheFile]] = {}
        self.is_complete = False
        is_all = files.scanned.is_set()
        self._take_in(files.open(tree.root.key))
        self._complete_if(is_all)

    def take(self, at_most: int) -> None:
        """Takes in files that were found since, at most `at_most`."""
        if not self.is_complete:
            # Asked before taking: the last files are found before the scan is reported as done.
            is_all = self._files.scanned.is_set()
            found = self._files.found(self._tree.root.key, at_most)
            self._take_in(found)
            self._complete_if(is_all and len(found) < at_most)

    def _complete_if(self, is_all: bool) -> None:
        if is_all:
            self.is_complete = True
            left = [file for files in self._without_parent.values() for file in files]
            self._without_parent.clear()
            gives_up = self._files.leave if self._files.lacks_some(self._tree.root.key) else self._files.remove
            self._take_in(sorted(left, key=lambda file: file.header.start), gives_up)

    def _take_in(self, found: Iterable[CacheFile], gives_up: Callable[[CacheFile], None] | None = None) -> None:
        waiting = deque(found)
        while waiting:
            file = waiting.popleft()
            parent = self._tree.get(file.header.parent)
            if parent is not None and parent.end == file.header.start:
                waiting += self._add(parent, file)
            elif parent is not None:
                self._files.remove(file)
            elif gives_up is not None:
                gives_up(file)
            else:
                self._without_parent.setdefault(file.header.parent, []).append(file)

    def _add(self, parent: Node, file: CacheFile) -> list[CacheFile]:
        """Makes a node of a file, or gives the file to a node that was read again; returns files that waited for it."""
        header = file.header
        if file.is_removed:
            return []
        node = self._tree.add(parent, header.piece)
        if not node.num_misses:
            node.frequency, node.cost_per_token, node.num_misses = header.frequency, header.cost_per_token, 1
        self._hold(node, file)
        return self._without_parent.pop(node.key, [])
