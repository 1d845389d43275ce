"""Tests for engine.generation.weights.stream beside a device: some layers lie there, and some are streamed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.generation.weights.cursor import Cursor
from engine.generation.weights.tracing import node_reader
from engine.models import layer_stages
from engine.models.gguf import layer_of
from tests.device.conftest import LAYERS
from tests.helpers.streamed_model import SPEC, Logits, opened, watched

# What goes into a slot is spoilt before it is read there: whoever computes or copies too early gets no numbers.
SPOILT = watched(lambda number: None)
ON_DEVICE = 5
# Of a batch of 32 tokens and more, a device would compute the other layers too, and copy their weights for it.
LARGE_BATCHES = replace(SPEC, n_ubatch=64)


def near(left: Logits, right: Logits) -> bool:
    """But for the order of sums: while layers are watched, a device computes one operation at a time."""
    return len(left) == len(right) and all(
        np.abs(own - other).max() < 2e-2 * own.std() for own, other in zip(left, right, strict=True)
    )


@pytest.fixture(params=[False, True], ids=["whole layers", "stages"])
def fine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers of tiny models come apart as well."""
    if request.param:
        monkeypatch.setattr(layer_stages, "LEAST_BYTES", 1)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What steps were computed from that was copied for them, of models whose layers are streamed."""
    names, plain = set[str](), Cursor._on_node

    def noting(cursor: Cursor) -> Callable[[int, bool, object], bool]:
        on_node, node_of = plain(cursor), node_reader()

        def note(tensor: int, is_asked: bool, user_data: object) -> bool:
            names.update(node_of(tensor).copied)
            return on_node(tensor, is_asked, user_data)

        return note

    monkeypatch.setattr(Cursor, "_on_node", noting)
    return names


@pytest.mark.parametrize("op_offload", [False, True], ids=["by the processor", "copied"])
@pytest.mark.parametrize(("streamed", "num_slots"), [((1, 2, 3), 1), ((0, 1, 2, 3), 2)])
def test_logits_are_those_of_stock_with_layers_on_the_device_and_others_in_a_ring(
    endless: Path, fine: None, copied: set[str], streamed: tuple[int, ...], num_slots: int, op_offload: bool
):
    spec = replace(LARGE_BATCHES, op_offload=op_offload)
    with opened(endless, None, n_gpu_layers=ON_DEVICE, spec=spec) as model:
        whole = model.text(2)
    with opened(endless, streamed, num_slots, SPOILT, ON_DEVICE, spec) as model:
        assert [name != "CPU" for name in model.model.layer_devices.values()] == [
            layer > LAYERS - ON_DEVICE for layer in range(LAYERS + 1)
        ]
        found = model.text(2)
        assert model.stream is not None
        assert model.stream.streamed == streamed
        assert model.stream.can_copy
        assert all(any(layer_of(name) == layer for name in copied) == op_offload for layer in streamed)
    assert near(found, whole)


def test_layers_on_the_device_are_left_where_they_are(endless: Path):
    with opened(endless, range(LAYERS), 2, SPOILT, n_gpu_layers=ON_DEVICE) as model:
        assert model.stream is not None
        assert model.stream.streamed == tuple(range(LAYERS + 1 - ON_DEVICE))
        assert all(np.isfinite(logits).all() for logits in model.text(2))
