"""Tests for engine.generation.moves."""

from __future__ import annotations

import numpy as np

from engine.generation.cache_files import Transfer
from engine.generation.knowledge_tree import KnowledgeTree, Node, Piece
from engine.generation.moves import MAX_WRITING, Moves
from engine.generation.slabs import Slabs
from engine.memory.ledger import Ledger
from tests.helpers.kept import ROOT


class Desk:
    def __init__(self) -> None:
        self.moves, self.tree = Moves(), KnowledgeTree(ROOT)
        self._slabs = Slabs(Ledger(), 2**20)

    def begin(self, number: int, is_read: bool = False, num_bytes: int = 1000) -> tuple[Node, Transfer]:
        node = self.tree.add(self.tree.root, Piece((number,) * 20))
        blob = self._slabs.allocate(num_bytes)
        transfer = Transfer(None, np.empty(0, np.uint8), is_read)
        self.moves.begin(node, blob, transfer)
        return node, transfer


def test_what_is_under_way_is_told_until_it_ends():
    desk = Desk()
    node, transfer = desk.begin(1, is_read=True)
    assert node in desk.moves
    assert desk.moves.is_reading(node)
    assert (len(desk.moves), desk.moves.num_writing) == (1, 0)
    assert desk.moves.end(transfer).node is node
    assert node not in desk.moves
    assert not desk.moves.is_reading(node)


def test_so_many_are_written_at_a_time_and_reading_does_not_count():
    desk = Desk()
    desk.begin(0, is_read=True)
    for number in range(1, MAX_WRITING + 1):
        assert desk.moves.has_room(2**30)
        _, transfer = desk.begin(number)
    assert not desk.moves.has_room(2**30)
    desk.moves.end(transfer)
    assert desk.moves.has_room(2**30)


def test_of_little_memory_little_is_on_its_way_but_always_one():
    desk = Desk()
    assert desk.moves.has_room(0)
    _, transfer = desk.begin(1)
    assert not desk.moves.has_room(4000)
    assert desk.moves.has_room(4001)
    desk.moves.end(transfer)
    assert desk.moves.has_room(0)


def test_what_has_arrived_is_taken_in_its_order():
    desk = Desk()
    transfers = [desk.begin(number)[1] for number in (1, 2)]
    assert list(desk.moves.taken()) == []
    for transfer in transfers:
        desk.moves.ended.put(transfer)
    assert list(desk.moves.taken()) == transfers


def test_all_can_be_given_up_without_waiting():
    desk = Desk()
    pairs = [desk.begin(number, is_read=number == 2) for number in (1, 2)]
    assert [move.node for move in desk.moves.give_up()] == [node for node, _ in pairs]
    assert all(transfer.is_unwanted for _, transfer in pairs)
    assert (len(desk.moves), desk.moves.num_writing, desk.moves.has_room(0)) == (0, 0, True)
