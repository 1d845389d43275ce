"""Decides what is evicted from a full tier first, by PGDSF.

PGDSF (RAGCache, https://arxiv.org/abs/2404.12457 §5.1): priority = clock + frequency × cost ÷ size, where cost ÷ size
is the time to compute one token, averaged over the times that it was computed. The clock rises to the highest evicted
priority, so formerly popular nodes age. Only leaves are evicted, because a node is useless without its path.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from engine.generation.knowledge_tree import Node

Item = TypeVar("Item")
Place = TypeVar("Place")


class Usage(Protocol):
    """How a node is used; `knowledge_tree.Node` implements it."""

    @property
    def frequency(self) -> int: ...

    @property
    def cost_per_token(self) -> float: ...

    @property
    def last_used(self) -> int: ...


# Usage and the tier's clock → priority; the lowest is evicted first.
Policy = Callable[[Usage, float], float]


def pgdsf(usage: Usage, clock: float) -> float:
    return clock + usage.frequency * usage.cost_per_token


class Ranking(Generic[Item]):
    """Items by priority, lowest first: a heap that skips outdated entries."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Item]] = []
        self._serials: dict[Item, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._serials)

    def put(self, item: Item, priority: float) -> None:
        """Adds an item, or changes its priority; among equals, the earliest is lowest."""
        self._next += 1
        self._serials[item] = self._next
        heapq.heappush(self._heap, (priority, self._next, item))
        if len(self._heap) > 2 * len(self._serials) + 64:
            self._heap = [entry for entry in self._heap if self._is_current(entry)]
            heapq.heapify(self._heap)

    def discard(self, item: Item) -> None:
        self._serials.pop(item, None)

    def lowest(self, acceptable: Callable[[Item], bool], among: int | None = None) -> tuple[Item, float] | None:
        """Returns the acceptable item of lowest priority (among the lowest `among`), and that; it stays in place."""
        passed: list[tuple[float, int, Item]] = []
        found = None
        while self._heap and found is None and len(passed) != among:
            entry = heapq.heappop(self._heap)
            if not self._is_current(entry):
                continue
            passed.append(entry)
            if acceptable(entry[2]):
                found = entry[2], entry[0]
        for entry in passed:
            heapq.heappush(self._heap, entry)
        return found

    def _is_current(self, entry: tuple[float, int, Item]) -> bool:
        return self._serials.get(entry[2]) == entry[1]


class Shelf(Generic[Place]):
    """The nodes that one tier holds, their places, and the order of eviction; the bytes are managed elsewhere."""

    def __init__(self, policy: Policy) -> None:
        self.clock = 0.0
        self.num_tokens = 0
        self._policy = policy
        self._places: dict[Node, Place] = {}
        self._priorities: dict[Node, float] = {}
        # For every node, held or not, with children here: counting ten thousand children each time would take a
        # millisecond.
        self._num_children: dict[Node, int] = {}
        self._leaves: Ranking[Node] = Ranking()

    def __contains__(self, node: Node) -> bool:
        return node in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, node: Node) -> Place:
        return self._places[node]

    def nodes(self) -> list[Node]:
        return list(self._places)

    def put(self, node: Node, place: Place) -> None:
        """Adds a node."""
        self._places[node] = place
        self.num_tokens += node.num_tokens
        parent = node.parent
        if parent is not None:
            self._num_children[parent] = self._num_children.get(parent, 0) + 1
            self._leaves.discard(parent)
        self.touch(node)

    def touch(self, node: Node) -> None:
        """Updates the priority of a node after it was used; ignored if the node is not held."""
        if node not in self._places:
            return
        self._priorities[node] = self.priority(node)
        if node not in self._num_children:
            self._leaves.put(node, self._priorities[node])

    def priority(self, node: Node) -> float:
        """Returns the priority that a node would have if it were added now."""
        return self._policy(node, self.clock)

    def victim(self, acceptable: Callable[[Node], bool], among: int | None = None) -> tuple[Node, float] | None:
        """Returns the next leaf to evict (among the lowest `among`) and its priority; a leaf has no children *here*."""
        return self._leaves.lowest(acceptable, among)

    def evict(self, node: Node) -> Place:
        """Removes a victim; the clock rises to its priority."""
        self.clock = max(self.clock, self._priorities[node])
        return self.take(node)

    def refuse(self, node: Node) -> None:
        """Raises the clock as if a node had been added and evicted at once, so that later nodes are worth more."""
        self.clock = max(self.clock, self.priority(node))

    def take(self, node: Node) -> Place:
        """Removes a node for another reason than lack of room."""
        place = self._places.pop(node)
        del self._priorities[node]
        self.num_tokens -= node.num_tokens
        self._leaves.discard(node)
        if node.parent is not None:
            self._note_gone(node.parent)
        return place

    def _note_gone(self, parent: Node) -> None:
        """Notes that a child of `parent` has left."""
        self._num_children[parent] -= 1
        if not self._num_children[parent]:
            del self._num_children[parent]
            if parent in self._places:
                self._leaves.put(parent, self._priorities[parent])
