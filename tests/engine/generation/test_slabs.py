"""Tests for engine.generation.slabs."""

from __future__ import annotations

import random
import weakref

import pytest

from engine.generation.slabs import LEAST_SLAB_BYTES, Slabs
from engine.memory.ledger import Ledger

PAGE = 4096
SLAB = 16 * PAGE


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def held(ledger: Ledger) -> int:
    return ledger.held_bytes("ram", "kv")


def test_blobs_share_a_slab_and_the_ledger_tells_what_is_mapped(ledger):
    slabs = Slabs(ledger, 4 * SLAB, SLAB)
    first, second = slabs.allocate(1000), slabs.allocate(2000)
    assert held(ledger) == slabs.mapped_bytes == SLAB
    assert (slabs.used_bytes, slabs.waste_bytes) == (3000, SLAB - 3000)
    first.data[:], second.data[:] = 1, 2
    assert set(first.data) == {1}
    assert (first.num_bytes, second.num_bytes) == (1000, 2000)


def test_a_blob_larger_than_a_slab_gets_its_own_of_whole_pages(ledger):
    slabs = Slabs(ledger, 4 * SLAB, SLAB)
    slabs.allocate(SLAB + 1)
    assert slabs.mapped_bytes == SLAB + PAGE


def test_slabs_grow_with_what_is_kept(ledger):
    slabs = Slabs(ledger, 64 * LEAST_SLAB_BYTES, 4 * LEAST_SLAB_BYTES)
    mapped = []
    for _ in range(5):
        slabs.allocate(LEAST_SLAB_BYTES)
        mapped.append(slabs.mapped_bytes // LEAST_SLAB_BYTES)
    assert mapped == [1, 2, 4, 4, 8]
    slabs.allocate(16 * LEAST_SLAB_BYTES)
    assert slabs.mapped_bytes == 24 * LEAST_SLAB_BYTES


@pytest.mark.parametrize("share", [0.501, 0.34, 0.26, 0.9, 1.001, 0.011])
def test_the_budget_holds_nearly_all_that_it_could_whatever_share_of_a_slab_blobs_take(ledger, share):
    num_bytes, budget_bytes = int(share * SLAB), 64 * SLAB + 5
    slabs, blobs = Slabs(ledger, budget_bytes, SLAB), []
    while (blob := slabs.allocate(num_bytes)) is not None:
        blobs.append(blob)
    # To each slab its last page, and at the end what is less than a blob.
    num_slabs = len(slabs._slabs)
    assert slabs.used_bytes == len(blobs) * num_bytes
    assert slabs.used_bytes > budget_bytes - num_bytes - num_slabs * PAGE - len(blobs) * 64
    assert slabs.used_bytes + slabs.waste_bytes == slabs.mapped_bytes == held(ledger) <= budget_bytes


def test_blobs_of_half_a_slab_and_a_few_bytes_fill_the_memory_tier(ledger):
    slabs = Slabs(ledger, 128 * 2**20)
    num_blobs = 0
    # As 256 tokens of a model with a billion weights: 32 KiB each, and a header.
    while slabs.allocate(256 * 32 * 2**10 + 120) is not None:
        num_blobs += 1
    assert num_blobs == 15
    assert slabs.waste_bytes < 2**20


def test_smaller_blobs_lie_in_what_larger_ones_leave(ledger):
    slabs = Slabs(ledger, 4 * SLAB, SLAB)
    first, second = slabs.allocate(SLAB // 2), slabs.allocate(SLAB // 2)
    slabs.free(first)
    assert all(slabs.allocate(SLAB // 8) is not None for _ in range(4))
    assert slabs.mapped_bytes == SLAB
    assert second.num_bytes == SLAB // 2


def test_an_empty_slab_goes_back_at_once(ledger):
    slabs = Slabs(ledger, 4 * SLAB, SLAB)
    first, large = slabs.allocate(1000), slabs.allocate(2 * SLAB)
    slabs.free(large)
    assert held(ledger) == SLAB
    slabs.free(first)
    assert (held(ledger), slabs.mapped_bytes, slabs.used_bytes) == (0, 0, 0)
    assert ledger.spans() == ()


def test_what_is_given_back_is_unmapped_for_good(ledger):
    slabs = Slabs(ledger, 4 * SLAB, SLAB)
    blob = slabs.allocate(1000)
    mapping = weakref.ref(blob._slab.buffer)
    slabs.free(blob)
    assert blob.num_bytes == 0
    del blob
    assert mapping() is None


def test_no_byte_over_the_budget_is_mapped(ledger):
    slabs = Slabs(ledger, SLAB + 3 * PAGE, SLAB)
    assert slabs.allocate(SLAB) is not None
    assert slabs.allocate(4 * PAGE) is None
    assert slabs.allocate(3 * PAGE) is not None
    assert slabs.allocate(1) is None
    assert slabs.mapped_bytes == SLAB + 3 * PAGE


def test_where_the_system_has_no_memory_there_is_no_room_either(ledger, monkeypatch):
    def refuse(num_bytes):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("engine.generation.slabs.Buffer", refuse)
    slabs = Slabs(ledger, 1 << 20, 1 << 16)
    assert slabs.allocate(100) is None
    assert (slabs.mapped_bytes, ledger.spans()) == (0, ())


def test_without_a_budget_there_is_no_room(ledger):
    assert Slabs(ledger).allocate(1) is None
    assert ledger.spans() == ()


def test_the_smallest_gap_that_fits_is_taken_and_gaps_join_again(ledger):
    slabs = Slabs(ledger, SLAB, SLAB)
    blobs = [slabs.allocate(4 * PAGE) for _ in range(4)]
    assert slabs.allocate(1) is None
    slabs.free(blobs[1])
    assert slabs.allocate(5 * PAGE) is None
    slabs.free(blobs[2])
    assert slabs.allocate(8 * PAGE) is not None


def test_random_blobs_keep_their_content_and_never_overlap(ledger):
    random_, slabs, blobs = random.Random(1), Slabs(ledger, 6 * SLAB, SLAB), {}
    refused = 0
    for step in range(4000):
        if random_.random() < 0.55:
            blob = slabs.allocate(random_.randrange(1, SLAB // 2))
            refused += blob is None
            if blob is not None:
                blob.data[:] = step % 251
                blobs[blob] = step % 251
        elif blobs:
            blob = random_.choice(list(blobs))
            assert (blob.data == blobs.pop(blob)).all()
            slabs.free(blob)
        assert slabs.mapped_bytes <= 6 * SLAB
        assert held(ledger) == slabs.mapped_bytes
        assert slabs.used_bytes == sum(blob.num_bytes for blob in blobs)
    assert refused
    for blob in blobs:
        slabs.free(blob)
    assert slabs.mapped_bytes == 0
