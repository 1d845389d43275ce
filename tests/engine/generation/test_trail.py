"""Tests for engine.generation.trail."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.generation import knowledge_tree
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.segment import tokens_of
from engine.generation.trail import after
from tests.helpers.kept import Room, passage, turn


def test_a_beginning_is_followed_as_far_as_a_look_at_all_of_it_finds_it(tmp_path: Path):
    room, chance = Room(tmp_path), random.Random(3)
    room.set_budgets(4096, 0, 0)
    pool = [
        *(passage(number) for number in range(4)),
        *(turn(number, length) for number, length in enumerate((3, 9, 40))),
    ]
    for _ in range(4):
        room.ask([turn(0, 32), *chance.choices(pool, k=4)])
    num_whole = num_short = 0
    for _ in range(400):
        beginning = [turn(0, 32), *chance.choices(pool, k=chance.randint(0, 4))]
        trail = after(room.keeper.trail(), beginning)
        is_whole = room.keeper.peek(beginning) == len(tokens_of(beginning))
        assert is_whole == bool(trail and trail.is_whole)
        num_whole += is_whole
        num_short += bool(trail and not trail.is_whole)
    room.close()
    assert num_whole > 20
    assert num_short > 5


def test_what_all_orders_begin_with_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    room = Room(tmp_path)
    room.set_budgets(4096, 0, 0)
    room.ask([turn(0, 32), passage(1), passage(2)])
    begun = after(room.keeper.trail(), [turn(0, 32)])
    assert begun
    hashed: list[bytes] = []
    digest_of = knowledge_tree.digest_of
    monkeypatch.setattr(knowledge_tree, "digest_of", lambda data: (hashed.append(data), digest_of(data))[1])
    one, other = passage(1), passage(2)
    assert after(begun, [one, other])
    assert not after(begun, [other, one])
    assert not after(begun, [other])
    assert len(hashed) == 2
    room.close()


def test_models_that_keep_only_whole_sequences_have_none(tmp_path: Path):
    room = Room(tmp_path)
    keeper = KnowledgeKeeper(b"whole", room.context, room.cells, room.ledger, room.files, keeps_whole=True)
    assert keeper.trail() is None
    keeper.close()
    room.close()
