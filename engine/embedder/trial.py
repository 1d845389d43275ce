"""The self-test: which backend, number format, threads and batches are fastest here; measured once per machine.

It takes a few seconds. The result is saved in the cache folder and is valid until the processor, a library or the model
changes. What the settings specify is not measured but used, as long as the vectors stay the same.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

import numpy as np

from engine.config import EmbedderSettings, write_atomically
from engine.embedder import backends
from engine.embedder.backends import BackendRefused, Model, Vectors
from engine.embedder.setup import (
    DEFAULT_BATCH_TOKENS,
    MIN_COSINE,
    WORTH_ANOTHER,
    Backend,
    Measured,
    NumberFormat,
    Setup,
    batches,
    best_number,
    fastest,
    in_workers,
)
from engine.embedder.turnstile import Turnstile
from engine.embedder.workers import at_once
from engine.memory.heap import peak_bytes

log = logging.getLogger(__name__)

_BATCH_TOKENS = (DEFAULT_BATCH_TOKENS // 2, DEFAULT_BATCH_TOKENS, DEFAULT_BATCH_TOKENS * 2)
# After this time the defaults are used for the rest, and nothing is saved: the next start measures again.
_PATIENCE_SECONDS = 10.0
# At least four batches for each worker.
_TEXTS_PER_CORE = 16
# A low threshold, because several workers gain 10 to 25 % on real chunks and never lose.
_WORTH_WORKERS = 1.02
# Typical chunks: long, short, and in other scripts; the vectors of each setup must agree on all of them.
_PROSE = "The tenant may end the lease at the close of any month by giving three months' notice in writing. "
SAMPLE = [
    *(f"Clause {number}. " + _PROSE * 9 for number in range(6)),
    *(f"{number} " + _PROSE * 3 for number in range(3)),
    "def area(width: float, height: float) -> float:\n    return width * height",
    "Die Kündigungsfrist beträgt drei Monate zum Monatsende.",
    "租约可以在任何月底终止，但须提前三个月书面通知。",
    "Invoice 2024-17; 3 × 19.90 EUR; total 59.70",
    "yes",
]

# To be changed when the trial changes, so that saved results are no longer used.
_FINDINGS = "with workers, bytes and plain BERTs"

Way = tuple[Backend, NumberFormat]
Clock = Callable[[], float]


class PutOff(Exception):
    """The trial is postponed: it would delay a user who waits, and its measurements would be wrong."""


def nobody_waits() -> bool:
    """Returns False: no user waits for anything but the trial itself."""
    return False


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model to run, and its setup."""

    model: Model
    setup: Setup


def choose(
    model: Model,
    identity: str,
    settings: EmbedderSettings,
    cache: Path | None,
    clock: Clock = time.perf_counter,
    somebody_waits: Callable[[], bool] = nobody_waits,
) -> Chosen:
    """Chooses the fastest way to run `model` (in float32) that does not change its vectors.

    Args:
        model: The loaded model.
        identity: The identity of the model; exports and results are saved under it.
        settings: What the user has set; it is not measured.
        cache: The folder for results and exports; None saves nothing.
        clock: Returns seconds.
        somebody_waits: Whether to postpone the trial.

    Raises:
        PutOff: A user waits; nothing was chosen.
    """
    export = None if cache is None else cache / "embedders" / _name(identity)
    trial = _Trial(model, settings, export, clock, somebody_waits)
    key = _key(identity, settings)
    found = _read(cache, key)
    if found is not None:
        chosen = trial.again(found)
        if chosen is not None:
            return chosen
    chosen = trial.run()
    if trial.is_calm:
        _write(cache, key, chosen.setup)
    return chosen


class _Trial:
    """One run of the self-test."""

    def __init__(
        self,
        model: Model,
        settings: EmbedderSettings,
        export: Path | None,
        clock: Clock,
        somebody_waits: Callable[[], bool],
    ) -> None:
        self._model, self._settings, self._export, self._clock = model, settings, export, clock
        self._somebody_waits = somebody_waits
        default = backends.default_threads()
        self._num_threads = settings.num_threads or default
        self._refusals: list[str] = []
        self._reference: Vectors | None = None
        self._begun = clock()

    @property
    def is_calm(self) -> bool:
        """Whether it has not taken too long; measurements on a busy machine are not reliable."""
        return self._clock() - self._begun <= _PATIENCE_SECONDS

    def again(self, setup: Setup) -> Chosen | None:
        """Returns a saved result, or None if it is no longer valid."""
        backends.set_threads(setup.num_threads)
        if (setup.backend, setup.number_format) == ("sentence-transformers", "float32"):
            return Chosen(self._model, setup)
        way: Way = (setup.backend, setup.number_format)
        model = self._prepared(way)
        # The files of an export may have been replaced, so its vectors are checked each time.
        is_same = model is not None and (way[0] != "openvino" or self._cosine(model) >= MIN_COSINE)
        return Chosen(model, setup) if model is not None and is_same else None

    def run(self) -> Chosen:
        backends.set_threads(self._num_threads)
        ways = {way: model for way in self._ways() if (model := self._prepared(way)) is not None}
        measured = {way: self._measured(way, model) for way, model in ways.items()}
        self._refuse_strangers(measured)
        way = self._wanted(measured)
        setup = Setup(way[0], way[1], num_threads=self._num_threads, batch_size=self._settings.batch_size)
        model = ways[way]
        setup = self._with_threads(model, setup)
        setup = self._with_workers(model, setup)
        setup = self._with_batches(model, setup)
        backends.set_threads(setup.num_threads)
        setup = _replace(setup, batch_bytes=self._batch_bytes(model, setup))
        # The last measurement may have been disturbed by an answer.
        self._give_way()
        return Chosen(model, _replace(setup, refusals=tuple(self._refusals)))

    def _give_way(self) -> None:
        if self._somebody_waits():
            raise PutOff

    def _ways(self) -> list[Way]:
        """Returns the ways to measure, beginning with unmodified float32."""
        installed, formats = backends.backends_installed(), backends.formats_worth_trying()
        settings = self._settings
        if settings.backend and settings.backend not in installed:
            self._refusals.append(f"{settings.backend} is not installed.")
        if settings.number_format and settings.number_format not in formats:
            formats = (*formats, settings.number_format)
        return [(backend, number_format) for backend in installed for number_format in formats]

    def _prepared(self, way: Way) -> Model | None:
        backend, number_format = way
        if not self._is_allowed(way) and way != ("sentence-transformers", "float32"):
            return None
        if backend == "sentence-transformers":
            return self._model.with_number_format(number_format)
        try:
            return self._model.through_openvino(number_format, self._num_threads, self._export)
        except BackendRefused as error:
            self._refusals.append(f"OpenVINO is not used: {error}.")
            return None

    def _is_allowed(self, way: Way) -> bool:
        settings = self._settings
        return settings.backend in ("", way[0]) and settings.number_format in ("", way[1])

    def _measured(self, way: Way, model: Model) -> Measured:
        self._give_way()
        self._encoded(model, SAMPLE[:2])  # the first call also prepares its kernels
        begun = self._clock()
        vectors = self._encoded(model, SAMPLE)
        seconds = self._clock() - begun
        if self._reference is None:
            self._reference = vectors
        return Measured(seconds, _smallest_cosine(vectors, self._reference))

    def _cosine(self, model: Model) -> float:
        return _smallest_cosine(self._encoded(model, SAMPLE), self._encoded(self._model, SAMPLE))

    def _refuse_strangers(self, measured: Mapping[Way, Measured]) -> None:
        for (backend, number_format), one in measured.items():
            if not one.is_same:
                name = "OpenVINO" if backend == "openvino" else backend
                self._refusals.append(
                    f"{name} in {number_format} is not used: its vectors differ (cosine {one.cosine:.3f})."
                )

    def _wanted(self, measured: Mapping[Way, Measured]) -> Way:
        """Returns the fastest way that the settings allow and whose vectors agree."""
        allowed = {way: one for way, one in measured.items() if self._is_allowed(way) and one.is_same}
        return fastest(allowed) if allowed else ("sentence-transformers", "float32")

    def _with_threads(self, model: Model, setup: Setup) -> Setup:
        numbers = {self._num_threads, os.cpu_count() or 1}
        if self._settings.num_threads or setup.backend == "openvino" or len(numbers) == 1 or not self.is_calm:
            return setup
        ways = {number: _replace(setup, num_threads=number) for number in sorted(numbers)}
        return ways[self._best(model, ways, self._num_threads)]

    def _with_batches(self, model: Model, setup: Setup) -> Setup:
        if setup.batch_size or setup.num_workers > 1 or not self.is_calm:
            return setup
        ways = {tokens: _replace(setup, batch_tokens=tokens) for tokens in _BATCH_TOKENS}
        return ways[self._best(model, ways, DEFAULT_BATCH_TOKENS)]

    def _with_workers(self, model: Model, setup: Setup) -> Setup:
        shared = in_workers(setup)
        # A model compiled by OpenVINO handles one request at a time.
        if shared.num_workers == 1 or setup.backend == "openvino" or not self.is_calm:
            return setup
        ways = {1: setup, shared.num_workers: shared}
        return ways[self._best(model, ways, 1, _WORTH_WORKERS)]

    def _batch_bytes(self, model: Model, setup: Setup) -> int:
        """Measures the memory of a full batch; the smaller of two tries, because other work counts as well."""
        full = [text for text in SAMPLE if len(text) > len(_PROSE) * 8]
        texts = list(islice(cycle(full), setup.texts_per_batch(model.max_tokens)))
        return min(peak_bytes(lambda: model.encode(texts, is_question=False)) for _ in range(2))

    def _best(self, model: Model, ways: Mapping[int, Setup], preferred: int, worth: float = WORTH_ANOTHER) -> int:
        """Returns the best way; each is measured in two rounds, and the faster one counts, to reduce disturbances."""
        rounds = [{number: self._seconds(model, way) for number, way in ways.items()} for _ in range(2)]
        return best_number({number: min(one[number] for one in rounds) for number in ways}, preferred, worth)

    def _seconds(self, model: Model, setup: Setup) -> float:
        """Measures the time for full chunks, enough of them for several batches per worker."""
        self._give_way()
        models = model.for_workers(setup.num_workers)
        turnstile = Turnstile(len(models))
        full = [text for text in SAMPLE if len(text) > len(_PROSE) * 8]
        texts = list(islice(cycle(full), _TEXTS_PER_CORE * self._num_threads))

        def encode(batch: list[int]) -> None:
            with turnstile.pass_through(is_urgent=False) as place:
                backends.set_threads(setup.num_threads)
                models[place].encode([texts[index] for index in batch], is_question=False)

        begun = self._clock()
        at_once(setup.num_workers, encode, batches(model.lengths(texts), setup, model.max_tokens))
        return self._clock() - begun

    @staticmethod
    def _encoded(model: Model, texts: list[str]) -> Vectors:
        setup = Setup()
        vectors: dict[int, Vectors] = {}
        for batch in batches(model.lengths(texts), setup, model.max_tokens):
            vectors.update(zip(batch, model.encode([texts[index] for index in batch], is_question=False), strict=True))
        return np.stack([vectors[index] for index in range(len(texts))])


def _smallest_cosine(vectors: Vectors, reference: Vectors) -> float:
    return float(np.min(np.sum(vectors * reference, axis=1)))


def _replace(setup: Setup, **changes: Any) -> Setup:
    return Setup(**{**asdict(setup), **changes})


# --- saved results ---


def _key(identity: str, settings: EmbedderSettings) -> str:
    """Hashes everything that the choice depends on."""
    wishes = settings.model_dump(include={"backend", "number_format", "num_threads", "batch_size"})
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [_FINDINGS, identity, backends.versions(), backends.processor(), cores, wishes]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _name(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _file(cache: Path) -> Path:
    return cache / "embedders" / "setups.json"


def _read(cache: Path | None, key: str) -> Setup | None:
    if cache is None:
        return None
    try:
        fields = json.loads(_file(cache).read_text(encoding="utf-8"))[key]
        return Setup(**{**fields, "refusals": tuple(fields["refusals"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(cache: Path | None, key: str, setup: Setup) -> None:
    """Saves the result; if that fails, the next start measures again."""
    if cache is None:
        return
    try:
        kept = cast(dict[str, Any], json.loads(_file(cache).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        kept = {}
    try:
        write_atomically(_file(cache), json.dumps({**kept, key: asdict(setup)}, indent=1).encode())
    except OSError as error:
        log.info("how the embedding model is run could not be kept: %s", error)
