"""Tests for engine.generation.weights.copied: weights in the processor's order leave memory and come back."""

from __future__ import annotations

import mmap
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.model import Model
from engine.generation.weights.copied import MOST_AROUND_BYTES, PIECE_BYTES, CopiedWeights, range_of
from engine.memory.ledger import Ledger
from engine.memory.pages import anonymous_ranges, appeared, resident_bytes
from tests.bench.bench_model import Shape, write_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="weights leave memory on Linux only")

MIB = 2**20
SPEC = ContextSpec(num_cells=256, n_batch=64, n_ubatch=16, num_threads=1, num_sequences=4)
# More than fits into what the allocator holds for a thread.
SHAPE = Shape("copied", layers=12, width=512, feed_forward=6656, heads=8, kv_heads=2, vocabulary=2000)


def memory(num_bytes: int) -> tuple[mmap.mmap, tuple[int, int]]:
    before = anonymous_ranges()
    held = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    [where] = appeared(before, anonymous_ranges())
    return held, where


def test_a_buffer_is_known_by_its_size_and_only_where_one_range_has_it():
    ranges = [(0, 4096), (1 * MIB, 41 * MIB), (50 * MIB, 57 * MIB)]
    page = mmap.PAGESIZE
    assert range_of(ranges, 40 * MIB - 4096) == (1 * MIB + page, 41 * MIB - page)
    assert range_of(ranges, 40 * MIB - 2 * MOST_AROUND_BYTES) is None
    assert range_of([*ranges, (90 * MIB, 130 * MIB)], 40 * MIB) is None
    assert range_of(ranges, 0) is None


def test_what_the_disk_budget_has_no_room_for_stays_in_memory(tmp_path: Path):
    held, where = memory(24 * MIB)
    held[:] = bytes([7]) * (24 * MIB)
    ledger = Ledger()
    ledger.take("index", "the library", "disk", 200 * MIB)
    weights = CopiedWeights(where, tmp_path, ledger)
    with pytest.raises(OSError, match="disk budget"):
        weights.leave(220 * MIB)
    assert weights.is_there
    assert ledger.counted_bytes("disk") == 200 * MIB
    weights.leave(224 * MIB)
    weights.come_back()
    # What is written already takes no more.
    weights.leave(1)
    assert held[:5] == bytes([0]) * 5
    weights.close()
    assert ledger.counted_bytes("disk") + ledger.reserved_bytes("disk") == 200 * MIB


def test_what_leaves_is_no_memory_any_more_and_comes_back_as_it_was(tmp_path: Path):
    held, where = memory(24 * MIB)
    held[:] = bytes(range(256)) * (24 * MIB // 256)
    ledger = Ledger()
    weights = CopiedWeights(where, tmp_path / "kv", ledger)
    for _ in range(3):
        weights.leave()
        assert not weights.is_there
        assert resident_bytes([where]) == 0
        assert list((tmp_path / "kv").iterdir()) == []
        weights.come_back()
        assert held[:] == bytes(range(256)) * (24 * MIB // 256)
    assert ledger.held_bytes("disk") == 24 * MIB
    weights.close()
    assert ledger.spans() == ()


def test_whoever_waits_is_asked_between_pieces_whether_that_goes_on(tmp_path: Path):
    held, where = memory(40 * MIB)
    held[:4] = b"here"
    weights, asked = CopiedWeights(where, tmp_path, Ledger()), list[str]()

    def goes_on(what: str, times: int) -> Callable[[], bool]:
        return lambda: asked.append(what) is None and asked.count(what) <= times

    with pytest.raises(OSError, match="nobody waits"):
        weights.leave(None, goes_on("cut short", 2))
    assert weights.is_there
    assert held[:4] == b"here"
    weights.leave(None, goes_on("leave", 100))
    with pytest.raises(OSError, match="nobody waits"):
        weights.come_back(goes_on("given up", 0))
    assert not weights.is_there
    weights.come_back(goes_on("come back", 10_000))
    assert held[:4] == b"here"
    assert asked.count("leave") == 40 * MIB // PIECE_BYTES
    assert asked.count("come back") >= 40 * MIB // PIECE_BYTES
    weights.close()


def test_what_cannot_be_written_stays(tmp_path: Path):
    held, where = memory(2 * MIB)
    held[:4] = b"here"
    (tmp_path / "kv").write_text("no folder")
    weights = CopiedWeights(where, tmp_path / "kv", Ledger())
    with pytest.raises(OSError, match="kv"):
        weights.leave()
    assert weights.is_there
    assert held[:4] == b"here"


def test_a_disk_that_is_nearly_full_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    held, where = memory(2 * MIB)
    held[:4] = b"here"
    weights = CopiedWeights(where, tmp_path, Ledger())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=100 * MIB, free=11 * MIB))
    with pytest.raises(OSError, match="No space left"):
        weights.leave()
    assert weights.is_there
    assert held[:4] == b"here"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_cut_is_told(tmp_path: Path):
    held, where = memory(2 * MIB)
    held[:4] = b"here"
    weights = CopiedWeights(where, tmp_path, Ledger())
    weights.leave()
    assert weights._file is not None
    weights._file._file.truncate(MIB)
    with pytest.raises(OSError, match="shorter"):
        weights.come_back()
    assert not weights.is_there
    weights.close()


def test_a_model_computes_the_same_after_its_weights_were_away(tmp_path: Path):
    # In a process of its own: one that has freed as much before may have a place for them among other memory.
    script = (
        "from pathlib import Path\n"
        "from tests.engine.generation.weights.test_copied import computed_before_and_after\n"
        f"print(computed_before_and_after(Path({str(tmp_path)!r})))"
    )
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )
    if "not copied" in done.stdout:
        pytest.skip("llama.cpp keeps this processor's weights as they lie in the file")
    assert done.stdout.strip().endswith("the same"), done.stderr


def computed_before_and_after(folder: Path) -> str:
    """Whether a model computes the same before its weights left and after they came back."""
    path = folder / "copied.gguf"
    write_model(path, SHAPE)
    model = Model(path, 0, lambda _: True)
    if not model.copied_bytes:
        return "not copied"
    assert model.copied_range is not None
    context = Context(model, SPEC)
    weights = CopiedWeights(model.copied_range, folder / "kv", Ledger())
    prompt = [Stretch(0, 0, tuple(range(300, 330)), 1)]

    def logits():
        context.clear()
        [row] = context.decode(prompt)
        return context.logits(row + 29).copy()

    before = logits()
    for _ in range(2):
        weights.leave()
        assert resident_bytes([model.copied_range]) < weights.num_bytes / 100
        weights.come_back()
        assert (logits() == before).all()
    context.close()
    # It is freed while its weights are away.
    weights.leave()
    model.close()
    weights.close()
    return "the same"
