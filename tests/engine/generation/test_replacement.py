"""Tests for engine.generation.replacement."""

from __future__ import annotations

import random

import pytest

from engine.generation.knowledge_tree import KnowledgeTree, Node, Piece
from engine.generation.replacement import Ranking, Shelf, pgdsf
from tests.bench.replacement_policies import POLICIES, gdsf, lfu, lru
from tests.helpers.kept import ROOT


def node_of(
    tree: KnowledgeTree, number: int, parent: Node | None = None, frequency: int = 1, cost: float = 1.0
) -> Node:
    node = tree.add(parent or tree.root, Piece((number,) * 20))
    node.frequency, node.cost_per_token = frequency, cost
    return node


def victim(shelf: Shelf, acceptable=lambda _: True) -> Node | None:
    found = shelf.victim(acceptable)
    return found[0] if found else None


def test_pgdsf_keeps_what_is_read_often_and_dear():
    tree, shelf = KnowledgeTree(ROOT), Shelf(pgdsf)
    cheap, dear, often = node_of(tree, 1), node_of(tree, 2, cost=3.0), node_of(tree, 3, frequency=2)
    for node in (dear, often, cheap):
        shelf.put(node, None)
    order = []
    while (next_out := victim(shelf)) is not None:
        order.append(next_out)
        shelf.evict(next_out)
    assert order == [cheap, often, dear]


def test_the_clock_rises_to_what_was_evicted_so_that_old_fame_fades():
    tree, shelf = KnowledgeTree(ROOT), Shelf(pgdsf)
    famous = node_of(tree, 0, frequency=5)
    shelf.put(famous, None)
    for number in range(1, 10):
        shelf.put(node_of(tree, number), None)
        out = victim(shelf)
        shelf.evict(out)
        if out is famous:
            break
    assert famous not in shelf
    assert shelf.clock == 5.0


def test_taking_out_for_another_reason_leaves_the_clock_alone():
    tree, shelf = KnowledgeTree(ROOT), Shelf(pgdsf)
    node = node_of(tree, 1)
    shelf.put(node, "here")
    assert shelf[node] == "here"
    assert shelf.take(node) == "here"
    assert (shelf.clock, len(shelf), shelf.num_tokens) == (0.0, 0, 0)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_only_leaves_go_in_whatever_order_they_came(order):
    tree, shelf = KnowledgeTree(ROOT), Shelf(lfu)
    first = node_of(tree, 1, frequency=1)
    second = node_of(tree, 2, first, frequency=5)
    third = node_of(tree, 3, second, frequency=9)
    nodes = (first, second, third)
    for index in order:
        shelf.put(nodes[index], None)
    gone = []
    while (next_out := victim(shelf)) is not None:
        gone.append(next_out)
        shelf.evict(next_out)
    assert gone == [third, second, first]


def test_a_leaf_is_what_has_no_children_on_this_shelf():
    tree, above, below = KnowledgeTree(ROOT), Shelf(lfu), Shelf(lfu)
    parent = node_of(tree, 1)
    child = node_of(tree, 2, parent)
    above.put(parent, None)
    below.put(child, None)
    assert victim(above) is parent
    assert victim(below) is child


def test_what_may_not_leave_is_passed_over_and_stays():
    tree, shelf = KnowledgeTree(ROOT), Shelf(lfu)
    nodes = [node_of(tree, number, frequency=number) for number in range(5)]
    for node in nodes:
        shelf.put(node, None)
    assert victim(shelf, lambda node: node not in nodes[:3]) is nodes[3]
    assert victim(shelf, lambda node: False) is None
    assert victim(shelf) is nodes[0]
    assert shelf.victim(lambda node: node is nodes[3], among=3) is None
    assert shelf.victim(lambda node: node is nodes[3], among=4) == (nodes[3], 3)


def test_the_peers_go_by_time_by_count_and_by_size():
    tree = KnowledgeTree(ROOT)
    node = node_of(tree, 1, frequency=4, cost=0.5)
    node.last_used = 9
    assert (lru(node, 7.0), lfu(node, 7.0), gdsf(node, 7.0), pgdsf(node, 7.0)) == (9, 4, 11.0, 9.0)
    assert set(POLICIES) == {"pgdsf", "gdsf", "lru", "lfu"}


def test_a_node_is_weighed_anew_after_use():
    tree, shelf = KnowledgeTree(ROOT), Shelf(lru)
    nodes = [node_of(tree, number) for number in range(3)]
    for node in nodes:
        tree.used(node)
        shelf.put(node, None)
    tree.used(nodes[0])
    shelf.touch(nodes[0])
    assert victim(shelf) is nodes[1]
    shelf.touch(node_of(tree, 9))
    assert len(shelf) == 3


def test_the_ranking_agrees_with_sorting():
    random_, ranking, model = random.Random(3), Ranking(), {}
    for step in range(20_000):
        item = random_.randrange(50)
        if random_.random() < 0.6:
            priority = random_.randrange(20)
            ranking.put(item, priority)
            model[item] = (priority, step)
        elif random_.random() < 0.5:
            ranking.discard(item)
            model.pop(item, None)
        banned = random_.randrange(50)
        expected = min(((p, item) for item, p in model.items() if item != banned), default=None)
        found = ranking.lowest(lambda each, banned=banned: each != banned)
        assert (found and found[0]) == (expected and expected[1])
        assert len(ranking) == len(model)
    assert len(ranking._heap) < 400
