"""A share of the ledger: what one of several models holds, under other names while it waits for its turn.

A plan decides about the bytes of one model. What the others hold is fixed for it, except weights: those of a waiting
model leave memory as soon as anything else needs the room.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core import Span, SpanState, Tier
from engine.memory.demand import SPARE_OWNER
from engine.memory.ledger import Lease, Ledger, Measure, Reservation

# The owner of what a waiting model keeps.
WAITING_OWNER = "pool"
# With fewer entries, it does not matter how many have been given back.
_MANY_ENTRIES = 64


def is_named(span: Span, owner: str, what: str) -> bool:
    """Returns whether bytes were taken under this name, even if their model waits and they have another now."""
    if span.owner == WAITING_OWNER:
        return span.what.endswith(_waiting_name("", what))
    return (span.owner, span.what) == (owner, what)


def _waiting_name(model: str, what: str) -> str:
    return f"{model}: {what}"


@dataclass(frozen=True, slots=True)
class _Entry:
    """The names of bytes while the model does not wait."""

    owner: str
    what: str
    is_counted: bool


class LedgerShare(Ledger):
    """Shows the whole ledger; leases taken here are known to be this model's. Usable from any thread."""

    def __init__(self, whole: Ledger) -> None:
        """Begins with nothing."""
        super().__init__(whole.on_change, whole.growing)
        self._whole, self._name = whole, ""
        self._entries: dict[Lease, _Entry] = {}
        self._num_entries_to_look_at = _MANY_ENTRIES
        self._is_waiting = self._is_away = False

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
        lease = self._whole.take(owner, what, tier, num_bytes, state, is_mapped=is_mapped, is_counted=is_counted)
        return self._entered(lease)

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
        return self._entered(self._whole.measure(owner, what, tier, measure, state, is_mapped=is_mapped))

    def wait(self, name: str, *, is_away: bool) -> None:
        """Enters what this model holds under other names, with its own, because another model is planned for.

        `name` is the model's, for users. `is_away`: what is left of its weights in memory leaves as soon as anything
        else needs the room.
        """
        self._name, self._is_waiting, self._is_away = name, True, is_away
        self._rename_all()

    def go_on(self) -> None:
        """Restores the names, because this model is the one that is planned for."""
        self._is_waiting = False
        self._rename_all()

    # --- the whole ---

    def spans(self, tier: Tier | None = None) -> tuple[Span, ...]:
        return self._whole.spans(tier)

    def reserve(self, tier: Tier, num_bytes: int, budget_bytes: int | None) -> Reservation | None:
        return self._whole.reserve(tier, num_bytes, budget_bytes)

    def look(self, older_than_s: float = 0.0) -> None:
        self._whole.look(older_than_s)

    def held_bytes(self, tier: Tier, owner: str | None = None, *, is_mapped: bool | None = None) -> int:
        return self._whole.held_bytes(tier, owner, is_mapped=is_mapped)

    def counted_bytes(self, tier: Tier) -> int:
        return self._whole.counted_bytes(tier)

    def reserved_bytes(self, tier: Tier) -> int:
        return self._whole.reserved_bytes(tier)

    # --- inside ---

    def _entered(self, lease: Lease) -> Lease:
        with self._lock:
            self._entries[lease] = _Entry(lease.span.owner, lease.span.what, lease.is_counted)
            if len(self._entries) >= self._num_entries_to_look_at:
                # Some leases are taken for a moment, many times a second, and their ends are not reported.
                self._drop_given_back()
        if self._is_waiting:
            self._rename(lease)
        return lease

    def _held_leases(self) -> tuple[Lease, ...]:
        with self._lock:
            self._drop_given_back()
            return tuple(self._entries)

    def _drop_given_back(self) -> None:
        self._entries = {lease: entry for lease, entry in self._entries.items() if self._whole.holds(lease)}
        self._num_entries_to_look_at = max(_MANY_ENTRIES, 2 * len(self._entries))

    def _rename_all(self) -> None:
        for lease in self._held_leases():
            self._rename(lease)

    def _rename(self, lease: Lease) -> None:
        entry = self._entries.get(lease)
        if entry is None:
            # It has been given back meanwhile.
            return
        if not self._is_waiting:
            self._whole.rename(lease, entry.owner, entry.what, is_counted=entry.is_counted)
            return
        # A copy on disk stays there, whichever model waits.
        is_spare = self._is_away and entry.owner == "weights" and lease.span.tier == "ram"
        is_counted = entry.is_counted and not is_spare
        self._whole.rename(
            lease,
            SPARE_OWNER if is_spare else WAITING_OWNER,
            _waiting_name(self._name, entry.what),
            is_counted=is_counted,
        )
