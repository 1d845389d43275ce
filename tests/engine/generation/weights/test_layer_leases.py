"""Tests for engine.generation.weights.layer_leases."""

from __future__ import annotations

from engine.generation.weights.layer_leases import LayerLeases
from engine.memory.ledger import Ledger


def shown(ledger: Ledger) -> dict[str, tuple[str, int, str]]:
    return {span.what: (span.tier, span.num_bytes, span.state) for span in ledger.spans() if span.owner == "weights"}


def test_a_layer_is_registered_where_it_lies_and_in_what_happens_to_it() -> None:
    ledger = Ledger()
    leases = LayerLeases(ledger, [10, 20, 30, 0], 5)
    leases.pin(0, "loading")
    leases.stream(1)
    leases.pin(2, "resident")
    leases.pin(3, "resident")
    assert shown(ledger) == {
        "output head and edges of layers": ("ram", 5, "resident"),
        "layer 0": ("ram", 10, "loading"),
        "layer 1": ("disk", 20, "streaming"),
        "layer 2": ("ram", 30, "resident"),
    }
    leases.pin(2, "evicting")
    assert shown(ledger)["layer 2"] == ("ram", 30, "evicting")
    leases.stream(2)
    leases.pin(1, "loading")
    leases.pin(0, "resident")
    assert ledger.held_bytes("ram") == 5 + 10 + 20
    assert shown(ledger)["layer 2"] == ("disk", 30, "streaming")
    assert (ledger.counted_bytes("ram"), ledger.counted_bytes("disk")) == (5 + 10 + 20, 0)
    leases.release()
    leases.release()
    assert ledger.spans() == ()


def test_slots_come_grow_and_go() -> None:
    ledger = Ledger()
    leases = LayerLeases(ledger, [10], 0)
    leases.show_slots({0: 10, 1: 20})
    leases.show_slots({0: 15})
    assert {what: size for what, (_, size, _) in shown(ledger).items() if what.startswith("slot")} == {"slot 0": 15}
    leases.release()
    assert ledger.spans() == ()
