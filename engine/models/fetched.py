"""The progress of a download, importable without the code that downloads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fetched:
    """The progress of a download. `is_new` is False while data of an earlier try is being checked."""

    num_bytes: int
    total_bytes: int
    is_new: bool = True
