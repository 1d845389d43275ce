"""The newest memory snapshot: who holds how many bytes where, what moved since the last one, and recent rates."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.models.cell_use import CellUse, cell_use
from app.models.memory_moves import Move, moves
from app.models.memory_table import MemoryTable
from app.models.rates import RateHistory
from engine import protocol
from engine.protocol import Decision, MemoryReply, Notice, TierSnapshot

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class MemoryModel(QObject):
    """`memory` is None until the engine has reported, and again when the engine has ended.

    `table` holds the same facts as rows, `rates` the last minutes.
    """

    snapshot_changed = Signal()  # memory, moves
    rates_changed = Signal()  # rates, at most once a second
    decided = Signal(object)  # Decision that was made since the window is open

    def __init__(
        self,
        client: EngineClient,
        parent: QObject | None = None,
        *,
        name_of: Callable[[str], str] = lambda question_id: "",
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`name_of` returns the title of a question's chat, "" if it is not known."""
        super().__init__(parent)
        self._client, self._name_of, self._clock = client, name_of, clock
        # A restarted engine reports why it uses less memory, so decisions in its first snapshot are new as well.
        self._opened_at = wall_clock()
        self._known: frozenset[Decision] = frozenset()
        self.memory: MemoryReply | None = None
        self._before: tuple[TierSnapshot, ...] = ()
        self.table = MemoryTable(self)
        self.rates = RateHistory()
        client.became_ready.connect(self.refresh)
        client.notice_received.connect(self._on_notice)
        client.state_changed.connect(self._on_state)

    @property
    def tiers(self) -> tuple[TierSnapshot, ...]:
        return self.memory.tiers if self.memory else ()

    @property
    def cells(self) -> CellUse | None:
        """Returns who uses the cells of the context; None if there is no context."""
        return cell_use(self.memory.counters, self._name_of) if self.memory else None

    @property
    def is_streaming(self) -> bool:
        """Whether layers are being read from the disk right now."""
        return bool(self.memory and self.memory.counters.get("streamed_bytes_per_s", 0.0) > 0)

    @property
    def moves(self) -> tuple[Move, ...]:
        """What differs from the previous snapshot; computed only on request."""
        return moves(self._before, self.tiers)

    def refresh(self) -> None:
        self._client.request(protocol.MEMORY, protocol.Nothing(), self._set)

    def _on_notice(self, notice: Notice) -> None:
        if isinstance(notice, protocol.MemorySnapshot):
            self._set(notice.memory)

    def _on_state(self, state: str) -> None:
        # When a process ends, the system takes back what it held.
        if state in ("restarting", "failed", "stopped"):
            self._set(None)

    def _set(self, memory: MemoryReply | None) -> None:
        if memory is not None and self.rates.note(memory.counters, self._clock()):
            self.rates_changed.emit()
        if memory == self.memory:
            return
        if self.memory is not None and memory is not None:
            memory = memory.model_copy(update={"tiers": _known(self.memory.tiers, memory.tiers)})
        self._before, self.memory = self.tiers, memory
        self.table.take(self.tiers)
        self.snapshot_changed.emit()
        for decision in self._news():
            self.decided.emit(decision)

    def _news(self) -> tuple[Decision, ...]:
        """Returns what was decided since the last snapshot, the oldest first."""
        if self.memory is None:
            return ()
        history, known = self.memory.history, self._known
        self._known = frozenset(history)
        return tuple(
            decision for decision in reversed(history) if decision not in known and decision.at >= self._opened_at
        )


def _known(before: tuple[TierSnapshot, ...], after: tuple[TierSnapshot, ...]) -> tuple[TierSnapshot, ...]:
    """Returns the tiers, reusing previous objects where nothing has changed, so that views need not compare."""
    old = {tier.tier: tier for tier in before}
    return tuple(old[tier.tier] if old.get(tier.tier) == tier else tier for tier in after)
