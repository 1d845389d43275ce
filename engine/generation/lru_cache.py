"""A cache of what was recently made of objects, by their identity: comparing prompts would take the longest of all."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class LruCache(Generic[Key, Made]):
    """At most `most` entries; the least recently used leaves first. Used by one thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        # Holds the object that the key identifies: its id cannot be reused while it is held here.
        self._known: dict[Key, tuple[object, Made]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, key: Key, kept_alive: object, make: Callable[[], Made]) -> Made:
        """What was made under `key`, ids of `kept_alive` or of its parts; made now if it is not known."""
        known = self._known.pop(key, None) or (kept_alive, make())
        self._known[key] = known
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        return known[1]
