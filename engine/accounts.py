"""Accounts: who holds which bytes in memory and on disk, beside what the engine is doing, in figures and words."""

from __future__ import annotations

import os
from pathlib import Path

from engine.assembly import Parts
from engine.core import Span
from engine.memory.hardware import Hardware
from engine.memory.ledger import Ledger
from engine.memory.snapshot import take_snapshot
from engine.protocol import MemoryReply


def memory(ledger: Ledger, hardware: Hardware, parts: Parts, num_waiting: int) -> MemoryReply:
    """Who holds what, now; `num_waiting` questions have not ended."""
    told = tuple(filter(None, (parts.loader.decision, parts.loader.pending, parts.loader.problem)))
    return take_snapshot(ledger, hardware, _counters(parts, num_waiting), told, _children(parts))


def bytes_below(folder: Path) -> int:
    """What all files of a folder take on disk."""
    # os.walk passes over folders that vanish meanwhile; LanceDB replaces its files while it indexes.
    return sum(_file_bytes(os.path.join(inside, name)) for inside, _, names in os.walk(folder) for name in names)


def _counters(parts: Parts, num_waiting: int) -> dict[str, float]:
    stores = parts.stores.opened()
    of_index = stores.index.counters() if stores is not None else {}
    of_questions = {"tokens_per_s": 0.0, "questions_waiting": float(num_waiting)} | dict(parts.generation.counters)
    return of_questions | of_index | parts.sweep_costs.counters()


def _children(parts: Parts) -> tuple[Span, ...]:
    num_bytes = parts.pool.memory_bytes() + parts.viewer.memory_bytes()
    return (Span("parsers", "processes that read files", "ram", num_bytes),) if num_bytes else ()


def _file_bytes(path: str) -> int:
    """Its size; 0 when it has gone since it was listed."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
