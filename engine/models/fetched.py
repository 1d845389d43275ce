"""The progress of a download, importable without the code that downloads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fetched:
    """How much of the model is there. `is_new`: it came just now, and was not there since an earlier try."""

    num_bytes: int
    total_bytes: int
    is_new: bool = True
