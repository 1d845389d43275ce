"""Tests for engine.embedder.trial, on models that only claim to take their time."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from engine.config import EmbedderSettings
from engine.embedder import backends, trial
from engine.embedder.backends import BackendRefused
from engine.embedder.setup import DEFAULT_BATCH_TOKENS


class FakeModel:
    """Moves the clock by `seconds` a text; its vectors lie at `cosine` to float32's."""

    max_tokens = 256
    num_bytes = 100

    def __init__(self, machine: Machine, seconds: float, cosine: float = 1.0) -> None:
        self.machine, self.seconds, self.cosine = machine, seconds, cosine

    def lengths(self, texts: list[str]) -> list[int]:
        return [len(text) // 4 + 2 for text in texts]

    def encode(self, texts: list[str], *, is_question: bool) -> np.ndarray:
        gain = self.machine.gain_of_large_batches if len(texts) > 8 else 1.0
        # Two workers take turns with this clock: beside each other, they would take half the time.
        gain *= 1.0 if self.machine.threads > 1 else self.machine.gain_of_workers
        with self.machine.lock:
            self.machine.num_encoded += len(texts)
            if self.machine.num_encoded in self.machine.hiccups:
                self.machine.now += 1.0
            self.machine.now += self.seconds * len(texts) / self.machine.threads / gain
        vector = np.array([self.cosine, np.sqrt(1 - self.cosine**2)], dtype=np.float32)
        return np.tile(vector, (len(texts), 1))

    def for_workers(self, num_workers: int) -> tuple[FakeModel, ...]:
        return (self,) * num_workers

    def with_number_format(self, number_format: str) -> FakeModel:
        return self if number_format == "float32" else self.machine.half

    def through_openvino(self, number_format: str, num_threads: int, export: Path | None) -> FakeModel:
        if self.machine.openvino is None:
            raise BackendRefused("the model cannot be converted (no such layer)")
        return self.machine.openvino


class Machine:
    """A processor of our imagination."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.threads, self.num_encoded, self.gain_of_large_batches = 0.0, 1, 0, 1.0
        self.gain_of_workers, self.lock = 1.0, threading.Lock()
        # Something else keeps it busy for a moment when so many texts are embedded.
        self.hiccups: range = range(0)
        self.somebody_comes_at: float = float("inf")
        self.plain, self.half = FakeModel(self, 0.02), FakeModel(self, 0.01)
        self.openvino: FakeModel | None = FakeModel(self, 0.008)
        self.installed = ("sentence-transformers",)
        self.formats = ("float32",)
        self.name = "a processor"
        monkeypatch.setattr(backends, "set_threads", self._set_threads)
        monkeypatch.setattr(backends, "default_threads", lambda: 2)
        monkeypatch.setattr(backends, "backends_installed", lambda: self.installed)
        monkeypatch.setattr(backends, "formats_worth_trying", lambda: self.formats)
        monkeypatch.setattr(backends, "processor", lambda: self.name)
        monkeypatch.setattr(backends, "versions", lambda: {"torch": "2"})
        monkeypatch.setattr(trial.os, "cpu_count", lambda: 2)

    def _set_threads(self, threads: int) -> None:
        self.threads = threads

    def choose(self, cache: Path | None = None, **settings: object) -> trial.Chosen:
        wishes = EmbedderSettings(**settings)
        return trial.choose(self.plain, "model@1", wishes, cache, lambda: self.now, self._somebody_waits)  # type: ignore[arg-type]

    def _somebody_waits(self) -> bool:
        return self.num_encoded >= self.somebody_comes_at


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_a_plain_processor_keeps_float32(machine: Machine) -> None:
    chosen = machine.choose()

    assert chosen.model is machine.plain  # type: ignore[comparison-overlap]
    assert (chosen.setup.number_format, chosen.setup.num_threads) == ("float32", 2)
    assert (chosen.setup.batch_tokens, chosen.setup.refusals) == (DEFAULT_BATCH_TOKENS, ())


def test_half_precision_is_used_where_the_processor_has_it_and_it_is_faster(machine: Machine) -> None:
    machine.formats = ("float32", "bfloat16")

    assert machine.choose().setup.number_format == "bfloat16"
    machine.half.cosine = 0.9
    chosen = machine.choose()
    assert chosen.setup.number_format == "float32"
    assert "vectors differ (cosine 0.900)" in chosen.setup.refusals[0]


def test_a_wrong_export_is_refused_with_a_sentence_however_fast(machine: Machine) -> None:
    machine.installed = ("sentence-transformers", "openvino")
    assert machine.choose().setup.backend == "openvino"

    machine.openvino = FakeModel(machine, 0.001, cosine=0.2)
    chosen = machine.choose(backend="openvino")

    assert chosen.setup.backend == "sentence-transformers"
    assert "OpenVINO in float32 is not used: its vectors differ" in chosen.setup.refusals[0]


def test_a_model_that_cannot_be_converted_runs_as_it_is(machine: Machine) -> None:
    machine.installed = ("sentence-transformers", "openvino")
    machine.openvino = None

    chosen = machine.choose()

    assert chosen.setup.backend == "sentence-transformers"
    assert chosen.setup.refusals == ("OpenVINO is not used: the model cannot be converted (no such layer).",)


def test_what_the_user_set_is_done_and_not_measured(machine: Machine) -> None:
    setup = machine.choose(number_format="bfloat16", num_threads=1, batch_size=5).setup

    assert (setup.number_format, setup.num_threads, setup.batch_size) == ("bfloat16", 1, 5)
    assert machine.choose(backend="openvino").setup.refusals == ("openvino is not installed.",)


def test_larger_batches_are_taken_where_they_are_faster(machine: Machine) -> None:
    machine.gain_of_large_batches = 2.0

    assert machine.choose().setup.batch_tokens == 2 * DEFAULT_BATCH_TOKENS


def test_a_batch_on_each_core_is_taken_where_that_is_faster_than_all_cores_at_one(machine: Machine) -> None:
    assert machine.choose().setup.num_workers == 1

    machine.gain_of_workers = 2.2
    setup = machine.choose().setup

    assert (setup.num_workers, setup.num_threads) == (2, 1)
    assert setup.batch_tokens == DEFAULT_BATCH_TOKENS // 2
    machine.installed = ("sentence-transformers", "openvino")
    assert machine.choose().setup.num_workers == 1


@pytest.mark.parametrize("begun", range(0, 140, 5))
def test_a_moment_in_which_the_machine_is_busy_changes_nothing(machine: Machine, begun: int) -> None:
    machine.hiccups = range(begun, begun + 12)

    setup = machine.choose().setup

    assert (setup.num_workers, setup.num_threads, setup.batch_tokens) == (1, 2, DEFAULT_BATCH_TOKENS)


def test_what_was_found_holds_until_the_machine_changes(machine: Machine, tmp_path: Path) -> None:
    machine.formats = ("float32", "bfloat16")
    first = machine.choose(tmp_path)
    measured = machine.num_encoded

    again = machine.choose(tmp_path)

    assert again.setup == first.setup
    assert again.model is machine.half  # type: ignore[comparison-overlap]
    assert machine.num_encoded == measured
    machine.name = "another processor"
    machine.choose(tmp_path)
    assert machine.num_encoded > measured


def test_an_export_is_looked_at_each_time(machine: Machine, tmp_path: Path) -> None:
    machine.installed = ("sentence-transformers", "openvino")
    assert machine.choose(tmp_path).setup.backend == "openvino"
    machine.openvino = FakeModel(machine, 0.008, cosine=0.1)

    assert machine.choose(tmp_path).setup.backend == "sentence-transformers"


def test_a_damaged_note_is_measured_anew(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "embedders").mkdir()
    (tmp_path / "embedders" / "setups.json").write_text("{not json")

    assert machine.choose(tmp_path).setup.num_threads == 2
    assert machine.choose(tmp_path / "embedders" / "setups.json").setup.num_threads == 2


def test_what_a_busy_machine_shows_is_not_kept(machine: Machine, tmp_path: Path) -> None:
    machine.plain.seconds = 2.0

    setup = machine.choose(tmp_path).setup

    assert setup.batch_tokens == DEFAULT_BATCH_TOKENS
    assert list(tmp_path.iterdir()) == []


def test_whoever_waits_for_an_answer_has_it_put_off_and_what_was_measured_is_not_kept(
    machine: Machine, tmp_path: Path
) -> None:
    machine.choose()
    num_of_a_whole_test, machine.num_encoded = machine.num_encoded, 0
    for machine.somebody_comes_at in (0, len(trial.SAMPLE), num_of_a_whole_test):
        machine.num_encoded = 0
        with pytest.raises(trial.PutOff):
            machine.choose(tmp_path)
        # What is being measured is measured to its end.
        assert machine.num_encoded <= machine.somebody_comes_at + 2 * trial._TEXTS_PER_CORE

    machine.somebody_comes_at = float("inf")
    machine.num_encoded = 0
    machine.choose(tmp_path)
    assert machine.num_encoded == num_of_a_whole_test
    machine.somebody_comes_at = 0
    # What was found before takes no time.
    machine.choose(tmp_path)
