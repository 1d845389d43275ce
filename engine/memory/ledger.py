"""The ledger is the only truth about which part holds how many bytes in which tier.

Code that takes memory registers it here and gives it back here; the Memory page, `ragdoll status` and the planner read
nothing else. A `Lease` is the receipt: it can grow, shrink and end, and ending twice is harmless. Code that is about to
grow asks first: a `Reservation` is room that no other part gets until it is a lease or given up. Bytes that cannot be
counted as they are taken (a library's caches, pages of a mapped file) are measured at each `look`. What counts against
no budget is entered as well but not counted: the model's own file, and pages of it that come and go.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from engine.core import Span, SpanState, Tier

# Returns the bytes that are held now; called on any thread, so it must be quick.
Measure = Callable[[], int]


@dataclass(slots=True, eq=False)
class Lease:
    """Bytes held by one owner for one purpose. Made by `take` only; usable from any thread."""

    _ledger: Ledger
    span: Span
    is_counted: bool = True

    @property
    def num_bytes(self) -> int:
        return self.span.num_bytes

    def resize(self, num_bytes: int) -> None:
        """Holds `num_bytes` from now on."""
        self._ledger._update(self, num_bytes=num_bytes)

    def mark(self, state: SpanState) -> None:
        """Sets the state of the bytes, which the Memory page shows."""
        self._ledger._update(self, state=state)

    def release(self) -> None:
        """Gives everything back. A second call does nothing."""
        self._ledger._release(self)


@dataclass(slots=True, eq=False)
class Reservation:
    """Room in a tier that was free under a budget and is reserved for the caller. Usable from any thread.

    It becomes leases by `take` and `grow`; `release`, or the end of a `with`, gives up what is left of it. Its holder
    must not wait for anything.
    """

    _ledger: Ledger
    tier: Tier
    _num_bytes: int

    @property
    def num_bytes(self) -> int:
        """What is left of it."""
        return self._num_bytes

    def take(
        self, owner: str, what: str, num_bytes: int, state: SpanState = "resident", *, is_mapped: bool = False
    ) -> Lease:
        """Turns a part of it into a lease. Raises ValueError where that is more than is left."""
        return self._ledger._take(Span(owner, what, self.tier, num_bytes, state, is_mapped), self)

    def grow(self, lease: Lease, num_bytes: int) -> None:
        """Adds a part of it to a lease of the same tier. Raises ValueError where that is more than is left."""
        self._ledger._grow(lease, num_bytes, self)

    def release(self) -> None:
        """Gives up what is left. A second call does nothing."""
        self._ledger._give_up(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@dataclass(slots=True, eq=False)
class Growth:
    """Bytes that were taken without being counted: measured afterwards, and entered if there were any."""

    lease: Lease | None = None

    def release(self) -> None:
        """Gives everything back. A second call does nothing."""
        if self.lease is not None:
            self.lease.release()


@dataclass(slots=True)
class Ledger:
    """All leases. `on_change` is called after each change, outside the lock, on the thread that made it."""

    on_change: Callable[[], None] = lambda: None
    # Makes a context in which an owner takes uncounted bytes for a purpose; set by the part that measures the process.
    growing: Callable[[str, str], AbstractContextManager[Growth]] = lambda owner, what: nullcontext(Growth())
    # In the order they were taken; the values are unused.
    _leases: dict[Lease, None] = field(default_factory=dict)
    _measures: dict[Lease, Measure] = field(default_factory=dict)
    _looked_at: float = float("-inf")
    _reservations: set[Reservation] = field(default_factory=set)
    _promises: tuple[tuple[Tier, Measure], ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)
    # One look after another, each in the order in which the measures were entered.
    _looking: threading.RLock = field(default_factory=threading.RLock)

    def take(
        self,
        owner: str,
        what: str,
        tier: Tier,
        num_bytes: int,
        state: SpanState = "resident",
        *,
        is_mapped: bool = False,
        is_counted: bool = True,
    ) -> Lease:
        """Registers `num_bytes` that `owner` holds in `tier` for `what` (words for the Memory page).

        `is_mapped` as in `Span`. Existing bytes are registered whatever any budget says; code that has a choice
        reserves. `is_counted` is false for bytes that would be there without us, or leave by themselves where room is
        wanted.
        """
        return self._take(Span(owner, what, tier, num_bytes, state, is_mapped), is_counted=is_counted)

    def reserve(self, tier: Tier, num_bytes: int, budget_bytes: int | None) -> Reservation | None:
        """Reserves `num_bytes`, if all that counts and is reserved in `tier` then stays within `budget_bytes`.

        If several ask at once for the last bytes, one gets them. None where there is no room: the caller keeps its
        present size. A budget of None has room for everything.
        """
        if num_bytes < 0:
            raise ValueError(f"{num_bytes} bytes cannot be reserved")
        reservation, promised_bytes = Reservation(self, tier, num_bytes), self._promised(tier)
        with self._lock:
            wanted = self._counted(tier) + self._reserved(tier) + promised_bytes + num_bytes
            if num_bytes and budget_bytes is not None and wanted > budget_bytes:
                return None
            self._reservations.add(reservation)
        return reservation

    @contextmanager
    def promised(self, tier: Tier, coming: Measure) -> Iterator[None]:
        """Announces for the block what comes whatever any budget says; `coming` returns how much is still missing."""
        promise = tier, coming
        with self._lock:
            self._promises = (*self._promises, promise)
        try:
            yield
        finally:
            with self._lock:
                self._promises = tuple(other for other in self._promises if other is not promise)

    def measure(
        self,
        owner: str,
        what: str,
        tier: Tier,
        measure: Measure,
        state: SpanState = "resident",
        *,
        is_mapped: bool = False,
    ) -> Lease:
        """Registers bytes that `measure` returns: now, and again at each `look` until the lease ends."""
        with self._looking:
            num_bytes = max(0, measure())
        lease = self._take(Span(owner, what, tier, num_bytes, state, is_mapped))
        with self._lock:
            if lease in self._leases:
                self._measures[lease] = measure
        return lease

    def look(self, older_than_s: float = 0.0) -> None:
        """Repeats measurements that are older than this; does not call `on_change`, as the next snapshot shows them."""
        now = time.monotonic()
        with self._lock:
            is_due = now - self._looked_at >= older_than_s
            self._looked_at = now if is_due else self._looked_at
            measures = tuple(self._measures.items()) if is_due else ()
        with self._looking:
            for lease, measure in measures:
                num_bytes = max(0, measure())
                with self._lock:
                    if lease in self._leases:
                        lease.span = replace(lease.span, num_bytes=num_bytes)

    def spans(self, tier: Tier | None = None) -> tuple[Span, ...]:
        """Returns what is held now, in the order it was taken."""
        with self._lock:
            return tuple(lease.span for lease in self._leases if tier is None or lease.span.tier == tier)

    def held_bytes(self, tier: Tier, owner: str | None = None, *, is_mapped: bool | None = None) -> int:
        """Returns what is held in a tier, by one owner or all; with `is_mapped`, only file pages or all but these."""
        with self._lock:
            return self._held(tier, owner, is_mapped)

    def counted_bytes(self, tier: Tier) -> int:
        """Returns what is held in a tier and counts against its budget."""
        with self._lock:
            return self._counted(tier)

    def reserved_bytes(self, tier: Tier) -> int:
        """Returns what is promised in a tier and not held yet."""
        promised_bytes = self._promised(tier)
        with self._lock:
            return self._reserved(tier) + promised_bytes

    def holds(self, lease: Lease) -> bool:
        """Returns whether the bytes of a lease have not been given back."""
        with self._lock:
            return lease in self._leases

    def rename(self, lease: Lease, owner: str, what: str, *, is_counted: bool) -> bool:
        """Enters bytes under another name; False where they have been given back."""
        with self._lock:
            if lease not in self._leases:
                return False
            lease.span, lease.is_counted = replace(lease.span, owner=owner, what=what), is_counted
        self.on_change()
        return True

    def _promised(self, tier: Tier) -> int:
        """Returns what is promised; not under the lock, because `coming` reads what is held."""
        return sum(max(0, coming()) for of_tier, coming in self._promises if of_tier == tier)

    # --- under the lock ---

    def _held(self, tier: Tier, owner: str | None = None, is_mapped: bool | None = None) -> int:
        return sum(
            lease.span.num_bytes
            for lease in self._leases
            if lease.span.tier == tier
            and (owner is None or lease.span.owner == owner)
            and (is_mapped is None or lease.span.is_mapped == is_mapped)
        )

    def _counted(self, tier: Tier) -> int:
        return sum(lease.span.num_bytes for lease in self._leases if lease.span.tier == tier and lease.is_counted)

    def _reserved(self, tier: Tier) -> int:
        return sum(one._num_bytes for one in self._reservations if one.tier == tier)

    def _spend(self, reservation: Reservation, num_bytes: int) -> None:
        if num_bytes > reservation._num_bytes:
            raise ValueError(f"{num_bytes} bytes are more than the {reservation._num_bytes} that are reserved")
        reservation._num_bytes -= num_bytes

    # --- for leases and reservations ---

    def _take(self, span: Span, reservation: Reservation | None = None, *, is_counted: bool = True) -> Lease:
        _check(span)
        lease = Lease(self, span, is_counted)
        with self._lock:
            if reservation is not None:
                self._spend(reservation, span.num_bytes)
            self._leases[lease] = None
        self.on_change()
        return lease

    def _grow(self, lease: Lease, num_bytes: int, reservation: Reservation) -> None:
        if lease.span.tier != reservation.tier or num_bytes < 0:
            raise ValueError(f"{lease.span.what!r} cannot grow by {num_bytes} bytes of the {reservation.tier}")
        with self._lock:
            self._check_held(lease)
            self._spend(reservation, num_bytes)
            lease.span = replace(lease.span, num_bytes=lease.span.num_bytes + num_bytes)
        self.on_change()

    def _give_up(self, reservation: Reservation) -> None:
        with self._lock:
            self._reservations.discard(reservation)
            reservation._num_bytes = 0

    def _update(self, lease: Lease, **changes: Any) -> None:
        with self._lock:
            self._check_held(lease)
            span = replace(lease.span, **changes)
            _check(span)
            is_changed = span != lease.span
            lease.span = span
        if is_changed:
            self.on_change()

    def _release(self, lease: Lease) -> None:
        with self._lock:
            if lease not in self._leases:
                return
            del self._leases[lease]
            self._measures.pop(lease, None)
        self.on_change()

    def _check_held(self, lease: Lease) -> None:
        if lease not in self._leases:
            raise ValueError(f"{lease.span.owner} has already given back {lease.span.what!r}")


def _check(span: Span) -> None:
    if span.num_bytes < 0:
        raise ValueError(f"{span.owner} cannot hold {span.num_bytes} bytes")
