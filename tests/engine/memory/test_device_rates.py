"""Tests for engine.memory.device_rates, on the processor, which is a device of ggml's as well."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from engine.memory import device_rates
from engine.memory.devices import Device
from engine.memory.ggml import Ggml, ggml_library
from engine.memory.profile import RATES

PROCESSOR = Device("CPU", "", 0, 0)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_rates, "COLUMNS", 256)
    monkeypatch.setattr(device_rates, "ROWS", 64)
    monkeypatch.setattr(device_rates, "MATRIX_BYTES", 64 * 256 // 32 * 18)
    monkeypatch.setattr(device_rates, "NUM_TOKENS", 32)
    monkeypatch.setattr(device_rates, "_LONGEST_SECONDS", 0.01)


@pytest.fixture
def ggml() -> Ggml:
    found = ggml_library()
    assert found is not None
    return found


def test_products_and_copies_are_measured_by_their_names_in_the_profile(ggml: Ggml):
    rates = device_rates.measured_rates(ggml, PROCESSOR)
    copied = {"host_to_device_bytes_per_s", "pageable_to_device_bytes_per_s"}
    assert set(rates) == copied | {"device_bytes_per_s", "device_rate"} < set(RATES)
    assert all(rate > 0 for rate in rates.values())


def test_reading_and_computing_are_told_apart(ggml: Ggml):
    # Every reading of the clock is a second later: a copy takes one, as do products for one token and for many.
    seconds = itertools.count(0.0, 1.0)
    rates = device_rates.measured_rates(ggml, PROCESSOR, lambda: next(seconds))
    num_bytes = device_rates.NUM_MATRICES * device_rates.MATRIX_BYTES
    assert rates == {
        "host_to_device_bytes_per_s": device_rates.MATRIX_BYTES,
        "pageable_to_device_bytes_per_s": device_rates.MATRIX_BYTES,
        "device_bytes_per_s": num_bytes,
        "device_rate": 32 * num_bytes / 0.5,
    }


def test_a_card_without_room_is_not_measured(ggml: Ggml, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ggml, "ggml_backend_alloc_ctx_tensors", lambda *_: None)
    assert device_rates.measured_rates(ggml, PROCESSOR) == {}


def test_what_could_not_be_computed_is_no_measurement(ggml: Ggml, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ggml, "ggml_backend_graph_compute", lambda *_: -1)
    with pytest.raises(OSError, match="stopped computing"):
        device_rates.measured_rates(ggml, PROCESSOR)


def test_without_a_card_another_process_tells_nothing():
    assert device_rates.device_rates() == {}


@pytest.mark.parametrize("code", ["import os; os.abort()", "print('no figures')", "pass", "raise SystemExit(3)"])
def test_a_measurement_that_ends_its_process_leaves_careful_rates(monkeypatch: pytest.MonkeyPatch, code: str):
    real = device_rates._output_of
    monkeypatch.setattr(device_rates, "_output_of", lambda _, wanted: real([sys.executable, "-c", code], wanted))
    assert device_rates.device_rates() == {}


def test_a_program_that_cannot_be_started_leaves_careful_rates(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/missing/python")
    assert device_rates.device_rates() == {}


@pytest.mark.parametrize(("is_wanted", "patience_seconds"), [(False, 60.0), (True, 0.0)])
def test_a_measurement_ends_when_nobody_wants_it_or_it_takes_too_long(
    monkeypatch: pytest.MonkeyPatch, is_wanted: bool, patience_seconds: float
):
    monkeypatch.setattr(device_rates, "_PATIENCE_SECONDS", patience_seconds)
    with pytest.raises(subprocess.TimeoutExpired):
        device_rates._output_of([sys.executable, "-c", "import time; time.sleep(600)"], lambda: is_wanted)
