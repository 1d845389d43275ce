"""What was made of things of late, by which things they are: comparing prompts takes longer than all else of a look."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class MadeOfLate(Generic[Key, Made]):
    """At most so many; the longest unused leaves first. Used by one thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        # With what the key is of: an id is nobody else's while that is held here.
        self._known: dict[Key, tuple[object, Made]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, key: Key, kept_alive: object, make: Callable[[], Made]) -> Made:
        """What was made under `key`, ids of `kept_alive` or of its parts, or is made now."""
        known = self._known.pop(key, None) or (kept_alive, make())
        self._known[key] = known
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        return known[1]
