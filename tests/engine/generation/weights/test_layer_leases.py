"""Tests for engine.generation.weights.layer_leases."""

from __future__ import annotations

from engine.generation.weights.layer_leases import LayerLeases
from engine.memory.ledger import Ledger


def shown(ledger: Ledger) -> dict[str, tuple[str, int, str]]:
    return {span.what: (span.tier, span.num_bytes, span.state) for span in ledger.spans() if span.owner == "weights"}


def test_a_layer_is_registered_where_it_lies_and_in_what_happens_to_it() -> None:
    ledger = Ledger()
    leases = LayerLeases(ledger, [10, 20, 30, 0], 5)
    leases.show(0, 10, "loading")
    leases.show(1, 0, "resident")
    leases.show(2, 30, "resident")
    leases.show(3, 0, "resident")
    assert shown(ledger) == {
        "output head and edges of layers": ("ram", 5, "resident"),
        "layer 0": ("ram", 10, "loading"),
        "layer 1": ("disk", 20, "streaming"),
        "layer 2": ("ram", 30, "resident"),
    }
    leases.show(2, 30, "evicting")
    assert shown(ledger)["layer 2"] == ("ram", 30, "evicting")
    leases.show(2, 0, "resident")
    leases.show(1, 20, "loading")
    leases.show(0, 10, "resident")
    assert ledger.held_bytes("ram") == 5 + 10 + 20
    assert shown(ledger)["layer 2"] == ("disk", 30, "streaming")
    assert (ledger.counted_bytes("ram"), ledger.counted_bytes("disk")) == (5 + 10 + 20, 0)
    leases.release()
    leases.release()
    assert ledger.spans() == ()


def test_a_layer_of_which_a_part_stays_is_registered_in_both_places() -> None:
    ledger = Ledger()
    leases = LayerLeases(ledger, [10, 20], 0)
    leases.show(1, 15, "resident")
    spans = [(span.tier, span.num_bytes, span.state) for span in ledger.spans() if span.what == "layer 1"]
    assert sorted(spans) == [("disk", 5, "streaming"), ("ram", 15, "resident")]
    leases.show(1, 20, "resident")
    assert shown(ledger)["layer 1"] == ("ram", 20, "resident")
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
