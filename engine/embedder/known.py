"""An entry of a catalogue for a model that is a folder on the hub, for any purpose, and how it is found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A repository of the hub. `num_bytes` is the approximate size of the download."""

    repo: str
    good_for: str
    licence: str
    num_bytes: int

    @property
    def name(self) -> str:
        return self.repo.partition("/")[2]


Known = TypeVar("Known", bound=KnownModel)


def known_in(catalogue: Iterable[Known], repo: str) -> Known | None:
    return next((one for one in catalogue if one.repo == repo), None)


def named_in(catalogue: Iterable[KnownModel], name: str) -> str:
    """Returns the repository of the catalogue's model with this name, or the name unchanged."""
    return next((one.repo for one in catalogue if name.casefold() == one.name.casefold()), name)
