"""Tests for engine.generation.found_files."""

from __future__ import annotations

import random
import threading

import pytest

from engine.generation.cache_files import CacheFile
from engine.generation.cache_format import CacheHeader
from engine.generation.found_files import FoundFiles
from engine.generation.knowledge_tree import KnowledgeTree, Node, Piece, key_after
from tests.helpers.kept import ROOT


class Finder:
    """Files that appear when a test says so, in place of `CacheFiles`."""

    def __init__(self) -> None:
        self.scanned = threading.Event()
        self.known: list[CacheFile] = []
        self.turned_up: list[CacheFile] = []
        self.removed: list[CacheFile] = []
        self.left: list[CacheFile] = []
        self.lacks = False

    def open(self, root: bytes) -> list[CacheFile]:
        return self.known

    def found(self, root: bytes, at_most: int) -> list[CacheFile]:
        taken, self.turned_up = self.turned_up[:at_most], self.turned_up[at_most:]
        return taken

    def remove(self, file: CacheFile) -> None:
        self.removed.append(file)

    def leave(self, file: CacheFile) -> None:
        self.left.append(file)

    def lacks_some(self, root: bytes) -> bool:
        return self.lacks


class Desk:
    def __init__(self, *known: CacheFile) -> None:
        self.finder, self.tree = Finder(), KnowledgeTree(ROOT)
        self.finder.known += known
        self.held: dict[Node, CacheFile] = {}
        self.found = FoundFiles(self.tree, self.finder, self.held.__setitem__)

    def find(self, *files: CacheFile, is_all: bool = False, at_most: int = 100) -> None:
        self.finder.turned_up += files
        if is_all:
            self.finder.scanned.set()
        self.found.take(at_most)

    def depth(self) -> int:
        return max((node.end for node in self.tree), default=0) // 20


def path_of_files(length: int, first: int = 0) -> list[CacheFile]:
    files, parent = [], ROOT
    for at in range(length):
        piece = Piece(range(1000 * first + 20 * at, 1000 * first + 20 * at + 20))
        header = CacheHeader(ROOT, parent, key_after(parent, piece), 20 * at, piece.bare(), 100, 0, 3, 0.5)
        files.append(CacheFile(None, header, 0))
        parent = header.key
    return files


def test_what_is_known_at_first_is_taken_in_at_once():
    desk = Desk(*path_of_files(3))
    assert [len(desk.tree), len(desk.held), desk.depth()] == [3, 3, 3]
    assert {(node.frequency, node.cost_per_token) for node in desk.tree} == {(3, 0.5)}
    assert not desk.found.is_complete


@pytest.mark.parametrize("seed", range(5))
def test_in_whatever_order_files_turn_up_they_make_a_tree(seed):
    files = [file for first in range(6) for file in path_of_files(5, first)]
    random.Random(seed).shuffle(files)
    desk = Desk()
    for file in files:
        desk.find(file)
    assert len(desk.tree) == 30
    assert {node.key: file for node, file in desk.held.items()} == {file.header.key: file for file in files}
    desk.find(is_all=True)
    assert desk.found.is_complete
    assert desk.finder.removed == []


def test_a_file_whose_path_has_a_gap_is_deleted_when_all_are_known_and_not_before():
    first, gap, third, fourth = path_of_files(4)
    desk = Desk()
    desk.find(fourth, third, first)
    assert (len(desk.tree), desk.finder.removed) == (1, [])
    desk.find(is_all=True)
    assert set(desk.finder.removed) == {third, fourth}
    assert gap not in desk.finder.removed
    assert desk.found.is_complete


def test_a_file_whose_path_has_a_gap_is_left_where_some_cannot_be_opened_now():
    first, gap, third, fourth = path_of_files(4)
    desk = Desk()
    desk.finder.lacks = True
    desk.find(fourth, third, first, is_all=True)
    assert (desk.depth(), desk.finder.removed) == (1, [])
    assert desk.finder.left == [third, fourth]
    assert gap not in desk.finder.left
    assert desk.found.is_complete


def test_a_file_whose_parent_was_read_again_meanwhile_is_of_use():
    first, second = path_of_files(2)
    desk = Desk()
    desk.find(second)
    desk.tree.add(desk.tree.root, Piece(range(20)))
    desk.find(is_all=True)
    assert desk.depth() == 2
    assert desk.finder.removed == []
    assert first not in desk.held.values()


def test_what_was_read_again_meanwhile_gets_its_file_and_keeps_what_is_known_of_it():
    (file,) = path_of_files(1)
    desk = Desk()
    node = desk.tree.add(desk.tree.root, Piece(range(20)))
    desk.tree.missed(node, 2.0)
    desk.find(file)
    assert desk.held == {node: file}
    assert node.cost_per_token == 2.0
    assert node.piece.has_tokens


def test_a_file_that_says_it_begins_elsewhere_than_its_path_ends_is_deleted():
    first, second = path_of_files(2)
    wrong = CacheFile(None, CacheHeader(ROOT, first.header.key, b"k" * 16, 7, second.header.piece, 100), 0)
    desk = Desk()
    desk.find(first, wrong)
    assert desk.finder.removed == [wrong]


def test_a_file_that_was_removed_meanwhile_becomes_no_node():
    (file,) = path_of_files(1)
    file.is_removed = True
    desk = Desk()
    desk.find(file, is_all=True)
    assert len(desk.tree) == 0


def test_only_so_many_are_taken_in_at_a_time():
    desk = Desk()
    desk.find(*[path_of_files(1, first)[0] for first in range(50)], is_all=True, at_most=20)
    assert (len(desk.tree), desk.found.is_complete) == (20, False)
    desk.found.take(20)
    desk.found.take(20)
    assert (len(desk.tree), desk.found.is_complete) == (50, True)
