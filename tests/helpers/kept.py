"""A context without llama.cpp whose keys and values can be told right from wrong, and prompts read into it."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.errors import RagdollError
from engine.generation.cache_files import CacheFiles
from engine.generation.cache_thread import Urgency
from engine.generation.cells import Cells, CellSequence
from engine.generation.keeping import Found
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.knowledge_tree import below
from engine.generation.segment import Segment, tokens_of
from engine.memory.ledger import Ledger

ROOT = b"r" * 16
TOKEN_BYTES = 64
_HEADER_BYTES = 16


class FakeContext:
    """Each position of a sequence has a value that depends on every token up to there, as keys and values do."""

    def __init__(self, num_cells: int, num_sequences: int = 64) -> None:
        self.num_cells, self.num_sequences = num_cells, num_sequences
        self.values: dict[int, dict[int, int]] = {}
        self.window_tokens = 0
        self.num_saves = 0

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        kept = {at: value for at, value in self.values.get(source, {}).items() if start <= at < end}
        assert len(kept) == end - start
        self.values.setdefault(target, {}).update(kept)

    def remove(self, slot: int, start: int = 0, end: int = -1) -> bool:
        held = self.values.get(slot, {})
        self.values[slot] = {at: value for at, value in held.items() if at < start or 0 <= end <= at}
        return True

    def has_window(self, slot: int, end: int, start: int = 0) -> bool:
        return True

    def state_bytes(self, slot: int) -> int:
        return _HEADER_BYTES + TOKEN_BYTES * len(self.values.get(slot, {}))

    def save(self, slot: int, into: np.ndarray) -> int:
        held = sorted(self.values[slot].items())
        if into.nbytes < self.state_bytes(slot):
            return 0
        self.num_saves += 1
        into[:] = 0
        into[:8] = np.frombuffer(np.int64(len(held)).tobytes(), np.uint8)
        rows = into[_HEADER_BYTES:].view(np.int64).reshape(len(held), TOKEN_BYTES // 8)
        rows[:, 0], rows[:, 1] = zip(*held, strict=True)
        return self.state_bytes(slot)

    def load(self, state: np.ndarray, slot: int) -> bool:
        count = int(state[:8].view(np.int64)[0])
        if state.nbytes != _HEADER_BYTES + TOKEN_BYTES * count:
            return False
        rows = state[_HEADER_BYTES:].view(np.int64).reshape(count, TOKEN_BYTES // 8)
        self.values[slot] = {int(at): int(value) for at, value in rows[:, :2]}
        return True

    def read(self, slot: int, start: int, tokens: Sequence[int]) -> None:
        """Computes the values of `tokens`, after what the sequence holds."""
        held = self.values.setdefault(slot, {})
        assert sorted(held) == list(range(start))
        for at, token in enumerate(tokens, start=start):
            held[at] = value_after(held[at - 1] if at else 0, token)


def value_after(value: int, token: int) -> int:
    digest = hashlib.blake2b(f"{value} {token}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "little")


def values_of(tokens: Sequence[int]) -> list[int]:
    values, value = [], 0
    for token in tokens:
        value = value_after(value, token)
        values.append(value)
    return values


class Room:
    """A keeper over a fake context, its files and ledger; and what a step loop would do with them."""

    def __init__(self, folder: Path, num_cells: int = 4096, num_sequences: int = 64, now=None) -> None:
        self.folder = folder
        self.context, self.cells = FakeContext(num_cells, num_sequences), Cells(num_cells, num_sequences)
        self.ledger = Ledger()
        # Memory that what passes through may take, beside all budgets.
        self.passing_room_bytes = 0
        self.problems: queue.SimpleQueue[RagdollError] = queue.SimpleQueue()
        self._now = {"now": now} if now else {}
        self.open()

    def open(self, root: bytes = ROOT, waits: bool = True) -> None:
        """A keeper over what the files hold; `waits` until all of them were found."""
        self.files = CacheFiles(self.folder, self.ledger, self.problems.put, **self._now)
        assert not waits or self.files.scanned.wait(30)
        self.keeper = KnowledgeKeeper(
            root, self.context, self.cells, self.ledger, self.files, passing_room_bytes=lambda: self.passing_room_bytes
        )

    def set_budgets(self, cells: int, ram_bytes: int, disk_bytes: int) -> None:
        self.files.set_budget(disk_bytes)
        self.keeper.set_budgets(cells, ram_bytes)

    def close(self) -> None:
        self.keeper.close()
        self.files.close()

    def restart(self, root: bytes = ROOT) -> None:
        self.close()
        assert self.ledger.spans() == ()
        self.open(root)

    def find(self, segments: Sequence[Segment]) -> Found:
        """What is kept, once it has been read from disk."""
        found = self.keeper.find(segments)
        while not self.keeper.is_ready(found):
            self.keeper._bytes.wait(10)
        return found

    def ask(self, segments: Sequence[Segment], seconds: float = 1.0) -> int:
        """Reads a prompt as the step loop does, and lets go of it; returns how many tokens were kept."""
        found = self.find(segments)
        sequence = self.cells.open()
        self.keeper.free_cells(max(0, len(tokens_of(segments)) - self.cells.num_free))
        kept = self.keeper.restore(found, sequence) if found.num_tokens else 0
        self.check_values(segments, sequence)
        self.read_rest(segments, sequence)
        self.keeper.keep(segments, sequence, seconds, sequence.end - kept)
        self.keeper.let_go(found)
        self.release(sequence)
        return kept

    def read_rest(self, segments: Sequence[Segment], sequence: CellSequence) -> None:
        rest = tokens_of(segments)[sequence.end :]
        self.context.read(sequence.slot, sequence.end, rest)
        self.cells.grow(sequence, len(rest))

    def check_values(self, segments: Sequence[Segment], sequence: CellSequence) -> None:
        """What a sequence holds is what reading its tokens gives."""
        held = self.context.values.get(sequence.slot, {})
        assert [held[at] for at in sorted(held)] == values_of(tokens_of(segments)[: sequence.end])
        assert sorted(held) == list(range(sequence.end))

    def release(self, sequence: CellSequence) -> None:
        self.context.remove(sequence.slot)
        self.cells.close(sequence)

    def settle(self) -> None:
        """Waits for the disk, also for what need not be waited for."""
        while self.keeper._bytes.wait():
            pass
        drain(self.files)

    def shrink(self) -> None:
        """Waits until what is over the budget for memory has been written and has left."""
        slabs = self.keeper._bytes.slabs
        for _ in range(100):
            self.settle()
            self.keeper.let_go(self.keeper.find([]))
            if slabs.mapped_bytes <= slabs.budget_bytes and not self.keeper._bytes.num_writing:
                return
        raise AssertionError("memory stays over its budget")

    def check(self) -> None:
        """Everything is accounted for: cells, memory, files, and no node without its path."""
        keeper, kept = self.keeper, self.keeper._bytes
        assert self.cells.num_free + self.cells.num_used == self.cells.num_cells
        mapped_bytes = kept.slabs.mapped_bytes + kept.slabs.passing_bytes
        assert self.ledger.held_bytes("ram", "kv") == mapped_bytes
        assert mapped_bytes == sum(slab.num_bytes for slab in kept.slabs._slabs.values())
        assert kept.slabs.used_bytes == sum(kept.ram[node].num_bytes for node in kept.ram.nodes())
        assert self.ledger.held_bytes("disk", "kv") == self.files.held_bytes == self.bytes_on_disk()
        for node in keeper.tree:
            assert (node in keeper._cells or node in kept) != node.is_missing
            assert not node.is_missing or any(each in kept.disk for each in below(node))
            assert node.pins == 0
        for node in kept.disk.nodes():
            parent = node.parent
            assert parent is keeper.tree.root or parent in kept or parent in keeper._cells or parent.is_missing

    def bytes_on_disk(self) -> int:
        drain(self.files)
        return sum(path.stat().st_size for path in self.folder.rglob("*.kv"))


def drain(files: CacheFiles) -> None:
    """Waits until all is done that was put to the files' thread."""
    is_done = threading.Event()
    files._thread.put(Urgency.NOTE, is_done.set)
    assert is_done.wait(30)


def passage(document: int, num_tokens: int = 32) -> Segment:
    tokens = tuple(1000 * document + at for at in range(num_tokens))
    return Segment(tokens, "passage", frozenset({document}))


def turn(number: int, num_tokens: int = 20) -> Segment:
    return Segment(tuple(10**6 + 1000 * number + at for at in range(num_tokens)))
