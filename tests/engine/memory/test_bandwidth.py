"""Tests for engine.memory.bandwidth."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from engine.memory import bandwidth
from engine.memory.bandwidth import MIB, disk_rates, measured
from engine.memory.profile import Profile


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "SAMPLE_BYTES", 4 * MIB)
    monkeypatch.setattr(bandwidth, "COPIED_BYTES", 2 * MIB)
    monkeypatch.setattr(bandwidth, "LONGEST_SECONDS", 0.01)


def test_everything_is_measured_and_nothing_is_left(tmp_path: Path):
    found = measured(Profile(), tmp_path)
    assert found.is_measured
    assert found.ram_bytes_per_s not in (0.0, Profile().ram_bytes_per_s)
    assert found.processor_rate not in (0.0, Profile().processor_rate)
    assert all(rate > 0 for rate in found.disk_bytes_per_s)
    assert found.disk_bytes_per_s != Profile().disk_bytes_per_s
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_wanted_any_more_stays_as_it_was(tmp_path: Path):
    asked = itertools.count()
    assert measured(Profile(), tmp_path, is_wanted=lambda: next(asked) < 2) == Profile()
    assert next(asked) == 3


def test_a_large_file_is_read_instead_of_written(tmp_path: Path):
    sample = tmp_path / "model.gguf"
    sample.write_bytes(bytes(5 * MIB))
    nowhere = tmp_path / "missing" / "folder"
    assert disk_rates(nowhere, sample) is not None
    assert not nowhere.exists()


def test_where_nothing_can_be_written_nothing_is_claimed(tmp_path: Path):
    (tmp_path / "file").write_text("no folder")
    assert disk_rates(tmp_path / "file") is None


def test_a_disk_that_refuses_direct_reads_is_read_through_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened, real = [], os.open

    def refuse(path: object, flags: int, *more: int) -> int:
        opened.append(flags)
        if flags & getattr(os, "O_DIRECT", 0):
            raise OSError(22, "Invalid argument")
        return real(path, flags, *more)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "open", refuse)
    assert disk_rates(tmp_path) is not None
    assert opened


def test_of_a_file_that_is_cut_while_it_is_read_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bandwidth, "_read_into", lambda descriptor, buffer, offset: 0)
    assert disk_rates(tmp_path) is None
    assert all(rate > 0 for rate in measured(Profile(), tmp_path).disk_bytes_per_s)


@pytest.mark.parametrize("has_sample", [False, True])
def test_what_a_kill_left_of_a_measurement_goes_with_the_next(tmp_path: Path, has_sample: bool):
    (tmp_path / ".bandwidth-k1ll3d").write_bytes(bytes(MIB))
    sample = tmp_path / "model.gguf"
    sample.write_bytes(bytes(5 * MIB))
    assert disk_rates(tmp_path, sample if has_sample else None) is not None
    assert list(tmp_path.iterdir()) == [sample]
