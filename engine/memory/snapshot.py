"""The live picture of memory: the ledger's spans per tier, with what the machine has and what others hold."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.core import Span, Tier
from engine.memory.hardware import Device, Hardware
from engine.memory.ledger import Ledger
from engine.memory.runtime import remainder
from engine.protocol import Decision, MemoryReply, PressureLevel, TierSnapshot

log = logging.getLogger(__name__)

# Not an owner: what the process holds and the ledger does not know. A test keeps it small.
UNACCOUNTED = "unaccounted"
MIN_INTERVAL_S = 0.1
IDLE_INTERVAL_S = 1.0
# Measuring takes some milliseconds, ten times as long as the rest of a picture.
MEASURED_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class TierNews:
    """The state of a tier, with fields as described in `TierSnapshot`."""

    budget_bytes: int | None = None
    chosen_budget_bytes: int | None = None
    pressure: PressureLevel = "none"
    given_up: tuple[str, ...] = ()


def take_snapshot(
    ledger: Ledger,
    hardware: Hardware,
    counters: Mapping[str, float],
    decisions: tuple[str, ...],
    news: Mapping[Tier, TierNews] | None = None,
    history: tuple[Decision, ...] = (),
) -> MemoryReply:
    """Takes the spans of every tier that exists; "other" is what is neither ours nor free.

    `news` of tiers and the `history` of decisions are passed on unchanged.
    """
    ledger.look(MEASURED_INTERVAL_S)
    tiers = [_device_tier(ledger, hardware.devices)] if hardware.devices else []
    tiers.append(_ram_tier(ledger, hardware))
    tiers.append(_disk_tier(ledger, hardware))
    told = tuple(_with_news(tier, news[tier.tier]) if news and tier.tier in news else tier for tier in tiers)
    return MemoryReply(tiers=told, counters=dict(counters), decisions=decisions, history=history)


def _with_news(tier: TierSnapshot, news: TierNews) -> TierSnapshot:
    return tier.model_copy(
        update={
            "budget_bytes": news.budget_bytes,
            "chosen_budget_bytes": news.chosen_budget_bytes,
            "pressure": news.pressure,
            "given_up": news.given_up,
        }
    )


def _device_tier(ledger: Ledger, devices: Sequence[Device]) -> TierSnapshot:
    """Returns all devices as one tier: layers are distributed over them, and budgets are for all together."""
    names = " + ".join(device.description or device.name for device in devices)
    capacity_bytes = sum(device.capacity_bytes for device in devices)
    free_bytes = sum(device.free_bytes for device in devices)
    return _tier(ledger, "gpu", names, capacity_bytes, free_bytes, ledger.spans("gpu"))


def _ram_tier(ledger: Ledger, hardware: Hardware) -> TierSnapshot:
    """Returns RAM, where what our process holds beyond all owners has a name of its own."""
    spans = tuple(span for span in ledger.spans("ram") if span.num_bytes)
    missing_bytes = remainder(ledger, hardware.process).kept_bytes
    if missing_bytes > 0:
        spans += (Span(UNACCOUNTED, "not accounted for", "ram", missing_bytes),)
    return _tier(ledger, "ram", "Memory", hardware.ram_capacity_bytes, hardware.ram_free_bytes, spans)


def _disk_tier(ledger: Ledger, hardware: Hardware) -> TierSnapshot:
    spans = ledger.spans("disk")
    return _tier(ledger, "disk", "Disk", hardware.disk_capacity_bytes, hardware.disk_free_bytes, spans)


def _tier(
    ledger: Ledger, kind: Tier, name: str, capacity_bytes: int, free_bytes: int, spans: tuple[Span, ...]
) -> TierSnapshot:
    held_bytes = sum(span.num_bytes for span in spans)
    return TierSnapshot.model_validate(
        {
            "tier": kind,
            "name": name,
            "capacity_bytes": capacity_bytes,
            "other_bytes": max(0, capacity_bytes - free_bytes - held_bytes),
            "spans": spans,
            # The spans do not include a lease that was taken since they were read.
            "uncounted_bytes": max(0, held_bytes - ledger.counted_bytes(kind)),
        }
    )


class SnapshotTicker:
    """Publishes a picture when something changed, at most ten per second, and one per second for what others do."""

    def __init__(self, look: Callable[[], MemoryReply], publish: Callable[[MemoryReply], None]) -> None:
        self._look, self._publish = look, publish
        self._changed, self._stopped = threading.Event(), threading.Event()
        self._is_blind = False
        self._thread = threading.Thread(target=self._run, name="memory-snapshot", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def note_change(self) -> None:
        """Notes that a lease was taken, changed or released."""
        self._changed.set()

    def stop(self) -> None:
        self._stopped.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(MIN_INTERVAL_S):
            self._changed.wait(IDLE_INTERVAL_S - MIN_INTERVAL_S)
            self._changed.clear()
            if not self._stopped.is_set():
                self._take()

    def _take(self) -> None:
        """Takes a picture; if that fails, the page misses one, and the next may succeed."""
        try:
            self._publish(self._look())
        except Exception:
            # Logged once, not every second for as long as it lasts.
            if not self._is_blind:
                log.exception("who holds what in memory could not be told")
            self._is_blind = True
        else:
            self._is_blind = False
