"""Tests for engine.generation.knowledge_tree."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from engine.generation import knowledge_tree
from engine.generation.knowledge_tree import (
    MAX_PIECE_TOKENS,
    MIN_PIECE_TOKENS,
    KnowledgeTree,
    Piece,
    key_after,
    path_of,
    pieces_of,
)
from engine.generation.segment import Segment
from tests.helpers.kept import ROOT, passage, turn

A, B, C = (pieces_of([passage(document)])[0] for document in (1, 2, 3))


def grow(tree: KnowledgeTree, *pieces: Piece):
    node = tree.root
    for piece in pieces:
        node = tree.add(node, piece)
    return node


def test_a_walk_ends_at_the_first_piece_that_is_missing():
    tree = KnowledgeTree(ROOT)
    grow(tree, A, B)
    assert [node.piece for node in tree.walk([A, B, C])] == [A, B]
    assert [node.piece for node in tree.walk([A, C, B])] == [A]
    assert tree.walk([B, A]) == []


def test_a_piece_of_which_only_the_beginning_is_known_is_missing():
    tree = KnowledgeTree(ROOT)
    grow(tree, A)
    assert tree.walk([Piece((*A.tokens, 7))]) == []
    assert tree.walk([Piece(A.tokens[:-1])]) == []


def test_the_same_passage_on_another_path_is_another_node():
    tree = KnowledgeTree(ROOT)
    first, behind = grow(tree, A), grow(tree, B, A)
    assert first is not behind
    assert first.key != behind.key
    assert (first.start, behind.start) == (0, len(B.tokens))
    assert [node.piece for node in path_of(behind)] == [B, A]


def test_keys_depend_on_the_root_and_on_every_token_before():
    here, there = Piece((1, 2)), Piece((2, 1))
    assert key_after(b"r", here) == key_after(b"r", Piece((1, 2)))
    assert len({key_after(b"r", here), key_after(b"s", here), key_after(b"r", there)}) == 3
    tree = KnowledgeTree(ROOT)
    node = grow(tree, A, B)
    assert tree.get(node.key) is node
    assert node.key == key_after(key_after(ROOT, A), B)


def test_adding_what_is_there_finds_it_and_joins_the_documents():
    tree = KnowledgeTree(ROOT)
    node = grow(tree, A)
    assert tree.add(tree.root, Piece(A.tokens, frozenset({9}))) is node
    assert node.piece.documents == {1, 9}
    assert tree.holders([9]) == [node]


def test_removing_takes_every_path_through_a_node_children_first():
    tree = KnowledgeTree(ROOT)
    end = grow(tree, A, B, C)
    middle, other = end.parent, grow(tree, A, C)
    assert tree.remove(middle) == [end, middle]
    assert end.is_gone
    assert middle.is_gone
    assert set(tree) == {other, other.parent}
    assert tree.holders([2]) == []
    assert tree.holders([3]) == [other]
    assert tree.get(end.key) is None


def test_use_and_misses_are_counted_and_costs_averaged():
    tree = KnowledgeTree(ROOT)
    node, other = grow(tree, A), grow(tree, B)
    for seconds in (0.1, 0.3):
        tree.missed(node, seconds)
    tree.used(node)
    tree.used(other)
    assert abs(node.cost_per_token - 0.2) < 1e-12
    assert (node.num_misses, node.frequency, other.frequency) == (2, 1, 1)
    assert other.last_used > node.last_used


def test_what_left_and_comes_back_is_remembered_unless_it_was_forgotten():
    tree = KnowledgeTree(ROOT)
    node = grow(tree, A)
    tree.missed(node, 0.5)
    tree.used(node)
    tree.remove(node)
    back = grow(tree, A)
    assert (back.frequency, back.cost_per_token, back.num_misses) == (1, 0.5, 1)
    tree.missed(back, 0.1)
    assert abs(back.cost_per_token - 0.3) < 1e-12
    tree.remove(back, remembers=False)
    assert grow(tree, A).frequency == 0


def test_only_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr(knowledge_tree, "MAX_REMEMBERED", 2)
    tree = KnowledgeTree(ROOT)
    for piece in (A, B, C):
        node = grow(tree, piece)
        tree.used(node)
        tree.remove(node)
    assert [grow(tree, piece).frequency for piece in (A, B, C)] == [0, 1, 1]


def test_short_segments_become_part_of_what_follows():
    opening, question = Segment((1, 2, 3), "instructions"), turn(1, MIN_PIECE_TOKENS - 1)
    pieces = pieces_of([opening, passage(1), passage(2), question, turn(2)])
    assert [len(piece.tokens) for piece in pieces] == [35, 32, 35]
    assert [piece.documents for piece in pieces] == [{1}, {2}, frozenset()]
    assert tuple(pieces[0].tokens[:3]) == (1, 2, 3)


def test_what_is_short_and_last_becomes_no_piece():
    assert pieces_of([passage(1), turn(1, MIN_PIECE_TOKENS - 1)]) == pieces_of([passage(1)])
    assert pieces_of([turn(1, 3)]) == []


@pytest.mark.parametrize("num_tokens", [MIN_PIECE_TOKENS, 319, 320, 335, 336, 640, 655, 656, 1000])
def test_a_long_segment_is_cut_into_parts_of_which_none_is_too_short(num_tokens):
    pieces = pieces_of([passage(1), turn(1, num_tokens)])[1:]
    assert [token for piece in pieces for token in piece.tokens] == list(turn(1, num_tokens).tokens)
    lengths = [piece.num_tokens for piece in pieces]
    assert all(length == MAX_PIECE_TOKENS for length in lengths[:-1])
    assert MIN_PIECE_TOKENS <= lengths[-1] < MAX_PIECE_TOKENS + MIN_PIECE_TOKENS


def test_of_a_long_text_whose_end_was_changed_the_beginning_is_the_same():
    before, after = turn(1, 1000), turn(1, 1000)
    after = replace(after, tokens=(*after.tokens[:700], 7, *after.tokens[700:]))
    pieces, changed = pieces_of([before]), pieces_of([after])
    assert pieces[:2] == changed[:2]
    assert pieces[2] != changed[2]
    documents = frozenset({3})
    assert {piece.documents for piece in pieces_of([replace(before, documents=documents)])} == {documents}


def test_a_short_passage_keeps_its_document_in_the_piece_it_became_part_of():
    pieces = pieces_of([passage(4, 5), passage(5)])
    assert [piece.documents for piece in pieces] == [{4, 5}]


def test_prompts_with_the_same_beginning_have_the_same_pieces():
    random_ = random.Random(5)
    for _ in range(200):
        beginning = [turn(number, random_.randrange(1, 40)) for number in range(8)]
        longer = [*beginning, turn(99, random_.randrange(1, 40))]
        pieces = pieces_of(beginning)
        assert pieces_of(longer)[: len(pieces)] == pieces


def test_random_changes_agree_with_a_plain_set_of_paths():
    random_, tree, model = random.Random(11), KnowledgeTree(ROOT), set()
    pieces = [pieces_of([passage(document)])[0] for document in range(6)]
    for _ in range(3000):
        path = tuple(random_.choice(pieces) for _ in range(random_.randrange(1, 5)))
        if random_.random() < 0.7:
            grow(tree, *path)
            model |= {path[:length] for length in range(1, len(path) + 1)}
        elif random_.random() < 0.5:
            found = tree.walk(path)
            if len(found) == len(path):
                tree.remove(found[-1])
                model = {kept for kept in model if kept[: len(path)] != path}
        else:
            document = random_.randrange(6)
            for node in tree.holders([document]):
                if not node.is_gone:
                    tree.remove(node)
            model = {kept for kept in model if all(document not in piece.documents for piece in kept)}
        walked = tree.walk(path)
        assert len(walked) == max(n for n in range(len(path) + 1) if n == 0 or path[:n] in model)
        assert len(tree) == len(model)
    assert {tuple(node.piece for node in path_of(each)) for each in tree} == model
