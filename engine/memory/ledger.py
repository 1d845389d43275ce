"""The ledger is the only truth about who holds how many bytes in which tier.

Whoever takes memory registers it here and gives it back here; the Memory page, `ragdoll status` and the
planner read nothing else. A `Lease` is the receipt: it can grow, shrink and end, and ending twice is harmless.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from engine.core import Span, SpanState, Tier


@dataclass(slots=True, eq=False)
class Lease:
    """Bytes held by one owner for one purpose. Made by `Ledger.take` only; usable from any thread."""

    _ledger: Ledger
    span: Span

    @property
    def num_bytes(self) -> int:
        return self.span.num_bytes

    def resize(self, num_bytes: int) -> None:
        """Holds `num_bytes` from now on."""
        self._ledger._update(self, replace(self.span, num_bytes=num_bytes))

    def mark(self, state: SpanState) -> None:
        """Says what is happening to the bytes; the Memory page shows it."""
        self._ledger._update(self, replace(self.span, state=state))

    def release(self) -> None:
        """Gives everything back. A second call does nothing."""
        self._ledger._release(self)


@dataclass(slots=True)
class Ledger:
    """All leases. `on_change` is called after each change, outside the lock, on the thread that made it."""

    on_change: Callable[[], None] = lambda: None
    _leases: list[Lease] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, owner: str, what: str, tier: Tier, num_bytes: int, state: SpanState = "resident") -> Lease:
        """Registers `num_bytes` that `owner` holds in `tier` for `what` (words for the Memory page)."""
        if num_bytes < 0:
            raise ValueError(f"{owner} cannot hold {num_bytes} bytes")
        lease = Lease(self, Span(owner, what, tier, num_bytes, state))
        with self._lock:
            self._leases.append(lease)
        self.on_change()
        return lease

    def spans(self, tier: Tier | None = None) -> tuple[Span, ...]:
        """What is held now, in the order it was taken."""
        with self._lock:
            return tuple(lease.span for lease in self._leases if tier is None or lease.span.tier == tier)

    def held_bytes(self, tier: Tier, owner: str | None = None) -> int:
        return sum(span.num_bytes for span in self.spans(tier) if owner is None or span.owner == owner)

    def _update(self, lease: Lease, span: Span) -> None:
        if span.num_bytes < 0:
            raise ValueError(f"{span.owner} cannot hold {span.num_bytes} bytes")
        with self._lock:
            if lease not in self._leases:
                raise ValueError(f"{span.owner} has already given back {span.what!r}")
            lease.span = span
        self.on_change()

    def _release(self, lease: Lease) -> None:
        with self._lock:
            if lease not in self._leases:
                return
            self._leases.remove(lease)
        self.on_change()
