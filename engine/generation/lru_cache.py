"""A cache of recent results by the identity of their input: comparing prompts would take longer than anything else."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class LruCache(Generic[Key, Made]):
    """A cache of at most `most` entries; the least recently used one leaves first. Used by one thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        # Keeps the object alive that the key identifies, so that its id cannot be reused.
        self._known: dict[Key, tuple[object, Made]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, key: Key, kept_alive: object, make: Callable[[], Made]) -> Made:
        """Returns the entry of `key` (ids of `kept_alive` or its parts), which is made if it does not exist."""
        known = self._known.pop(key, None) or (kept_alive, make())
        self._known[key] = known
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        return known[1]
