"""Members: the models in the pool, which are the chosen one and those that questions have named since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from engine.core import QUOTES_ONLY
from engine.generation.loader import ModelLoader
from engine.generation.member import Member
from engine.generation.under_way import UnderWay


class Members:
    """The members of the pool, changed only on the generation thread.

    `home` is the chosen one, which answers the questions that name no model; it may be without a model.
    """

    def __init__(self, loader: ModelLoader, make_under_way: Callable[[], UnderWay], clock: Callable[[], float]) -> None:
        """Starts with the chosen model.

        Args:
            loader: Loads it; loaders of others are derived from this one.
            make_under_way: Makes what answers the questions of one model.
            clock: A monotonic clock in seconds.
        """
        self._make_under_way, self._clock = make_under_way, clock
        self.home = self._member(loader)
        self._others: list[Member] = []
        self._num_moves_of_gone = 0

    def __iter__(self) -> Iterator[Member]:
        """Returns all members, the chosen one first."""
        return iter((self.home, *self._others))

    @property
    def others(self) -> tuple[Member, ...]:
        """All but the chosen one."""
        return tuple(self._others)

    @property
    def is_shared(self) -> bool:
        """Whether there is more than the chosen model."""
        return bool(self._others)

    @property
    def num_moves(self) -> int:
        """How often a question arrived, began or ended."""
        return self._num_moves_of_gone + sum(member.under_way.num_moves for member in self)

    @property
    def num_under_way(self) -> int:
        """Questions that have begun and not ended."""
        return sum(len(member.under_way) for member in self)

    @property
    def is_busy(self) -> bool:
        """Whether any answer is being written, or its prompt read."""
        return any(member.under_way.is_busy for member in self)

    def find(self, model: str) -> Member | None:
        """Returns the member for questions that name this model, "" for the chosen one; None if there is none yet."""
        if not model:
            return self.home
        return next((member for member in self if member.path == model), None)

    def names_of(self, member: Member) -> frozenset[str]:
        """Returns the names that questions use for it."""
        return frozenset({member.path, ""} if member is self.home else {member.path})

    def is_for_quotes(self, model: str) -> bool:
        """Returns whether questions that name this model are answered by quotes."""
        return model == QUOTES_ONLY or (not model and not self.home.path)

    def join(self, model: str) -> Member:
        """Adds a member, whose model is loaded when it is its turn."""
        member = self.another()
        member.loader.load_when_needed(Path(model), None)
        self._others.append(member)
        return member

    def another(self) -> Member:
        """Returns a new member without a model, which has not joined yet."""
        return self._member(self.home.loader.another())

    def make_home(self, member: Member) -> None:
        """Makes it answer the questions that name no model; the previous one stays for questions that name it."""
        before = self.home
        member.loader.is_chosen, before.loader.is_chosen = True, False
        # What is given up is tracked for the chosen model.
        planner, other = member.loader.planner, before.loader.planner
        planner.done_without, other.done_without = other.done_without, planner.done_without
        self.home = member
        self._others = [*(one for one in self._others if one is not member), before]

    def remove(self, member: Member) -> None:
        """Removes a member and frees its model; no request may be waiting for it."""
        self._others = [one for one in self._others if one is not member]
        self._num_moves_of_gone += member.under_way.num_moves
        member.loader.unload()

    def _member(self, loader: ModelLoader) -> Member:
        now = self._clock()
        return Member(loader, self._make_under_way(), since=now, asked_at=now)
