"""Tests for engine.generation.cache_index."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

from engine.generation.cache_format import CacheHeader, decode
from engine.generation.cache_index import CacheFile, CacheIndex
from engine.generation.knowledge_tree import Piece, key_after

ROOT, OTHER = b"r" * 16, b"o" * 16
FOLDER = Path("kept")
# What is known of a file in memory, whatever number of tokens it is of.
MOST_BYTES_PER_FILE = 2048


def file_of(number: int, root: bytes = ROOT, parent: bytes | None = None, documents=(), mtime=0, tokens=20):
    piece = Piece(range(number, number + tokens), frozenset(documents))
    key = key_after(parent or root, piece)
    header = CacheHeader(root, parent or root, key, 0 if parent is None else 20, piece, 100)
    return CacheFile(FOLDER, decode(header.encode()), mtime)


def test_what_is_added_is_known_until_it_is_removed():
    index, file = CacheIndex(), file_of(1, documents=(7,))
    index.add(file)
    assert (index.get(file.header.key), len(index), index.held_bytes) == (file, 1, file.num_bytes)
    assert index.documents() == {7}
    index.remove(file)
    assert (index.get(file.header.key), len(index), index.held_bytes, file.is_removed) == (None, 0, 0, True)
    assert (index.documents(), index.longest_unused()) == (frozenset(), None)


def test_a_file_takes_the_place_of_one_of_the_same_key():
    index, before, after = CacheIndex(), file_of(1, documents=(7,)), file_of(1, documents=(8,))
    index.add(before)
    index.add(after)
    assert (before.is_removed, index.get(after.header.key), index.documents()) == (True, after, {8})
    assert index.held_bytes == after.num_bytes


def test_the_longest_unused_is_of_no_model_that_is_open():
    index = CacheIndex()
    old, young = file_of(1, root=OTHER, mtime=1), file_of(2, root=OTHER, mtime=5)
    own = file_of(3, mtime=0)
    index.open(ROOT)
    for file in (young, own, old):
        index.add(file)
    assert index.longest_unused() is old
    assert set(index.open(OTHER)) == {young, old}
    assert index.longest_unused() is None
    index.close(ROOT)
    assert index.longest_unused() is own


def test_a_model_that_is_opened_gets_parents_first():
    index, parent = CacheIndex(), file_of(1)
    child = file_of(2, parent=parent.header.key)
    index.add(child)
    index.add(parent)
    assert index.open(ROOT) == [parent, child]
    assert index.open(OTHER) == []


def test_every_path_through_a_document_is_told_whatever_the_model():
    index, parent = CacheIndex(), file_of(1, documents=(7,))
    child, other = file_of(2, parent=parent.header.key), file_of(3, documents=(8,))
    elsewhere = file_of(1, root=OTHER, documents=(7,))
    for file in (child, other, elsewhere, parent):
        index.add(file)
    assert set(index.through([7])) == {parent, child, elsewhere}
    assert index.through([99]) == []


def test_random_files_leave_nothing_behind():
    random_, index, held = random.Random(4), CacheIndex(), {}
    for _ in range(3000):
        number = random_.randrange(60)
        if random_.random() < 0.5:
            root = random_.choice((ROOT, OTHER))
            file = file_of(number, root, documents={random_.randrange(9)}, mtime=random_.randrange(9))
            index.add(file)
            held[file.header.key] = file
        elif held:
            index.remove(held.pop(random_.choice(list(held))))
        if random_.random() < 0.1:
            random_.choice((index.open, index.close))(ROOT)
        assert index.held_bytes == sum(file.num_bytes for file in held.values())
        assert index.documents() == {document for file in held.values() for document in file.header.piece.documents}
        unused = [file.mtime_ns for file in held.values() if not index.is_open(file.header.root)]
        oldest = index.longest_unused()
        assert (oldest.mtime_ns if oldest else None) == min(unused, default=None)
    for file in held.values():
        index.remove(file)
    assert (len(index), index.documents(), index.longest_unused()) == (0, frozenset(), None)


def test_many_files_take_little_memory_however_many_tokens_they_are_of():
    index = CacheIndex()
    tracemalloc.start()
    for number in range(500):
        index.add(file_of(number * 1000, documents=(number,), tokens=512))
    num_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(index) == 500
    assert num_bytes / len(index) < MOST_BYTES_PER_FILE
