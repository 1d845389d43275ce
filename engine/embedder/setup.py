"""How an embedding model is run on this machine: a frozen choice, its description, and the pure decisions behind it.

It hardly affects the vectors: a setup is only chosen if its vectors agree with those of sentence-transformers in
float32 to a cosine of 0.99 or more on a fixed set of texts. So vectors of all setups have one identity and may be
compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Backend = Literal["numpy", "sentence-transformers", "openvino"]
NumberFormat = Literal["float32", "bfloat16"]

DEFAULT_BATCH_TOKENS = 2048
# How backends are described.
_NAMES: Mapping[Backend, str] = {"numpy": "without torch, ", "sentence-transformers": "", "openvino": "OpenVINO, "}
# Smaller batches do not use a core fully.
MIN_BATCH_TOKENS = 512
MAX_TEXTS_PER_BATCH = 64
# Each worker has its own tokenizer: 8 MiB and a seventh of a second for 30,000 words; some are ten times as large.
MAX_WORKERS = 4
MIN_COSINE = 0.99
# How many times as fast another backend or format must be to replace the standard one.
_WORTH_A_CHANGE = 1.1
WORTH_ANOTHER = 1.05


@dataclass(frozen=True, slots=True)
class Setup:
    """`num_workers` batches at once, each on `num_threads` cores.

    `batch_size` is the number of texts in a batch, 0 fills batches by tokens. `refusals` say what was not used, and
    why. `batch_bytes` is the memory that a full batch needs while it is computed, 0 if unknown.
    """

    backend: Backend = "sentence-transformers"
    number_format: NumberFormat = "float32"
    num_threads: int = 1
    num_workers: int = 1
    batch_tokens: int = DEFAULT_BATCH_TOKENS
    batch_size: int = 0
    refusals: tuple[str, ...] = ()
    batch_bytes: int = 0

    def texts_per_batch(self, longest_tokens: int) -> int:
        """Returns how many texts make a batch if the longest one has this many tokens."""
        if self.batch_size:
            return self.batch_size
        return max(1, min(MAX_TEXTS_PER_BATCH, self.batch_tokens // max(1, longest_tokens)))

    def describe(self, max_tokens: int) -> str:
        """Describes it for users: "bfloat16, batches of 8, 2 threads"."""
        batch = self.texts_per_batch(max_tokens)
        threads = "1 thread" if self.num_threads == 1 else f"{self.num_threads} threads"
        at_once = f"{self.num_workers} at once with {threads} each" if self.num_workers > 1 else threads
        words = f"{self.number_format}, batches of {batch}, {at_once}"
        return _NAMES[self.backend] + words


def in_workers(setup: Setup) -> Setup:
    """Divides the cores of `setup` among several batches, so that fewer threads wait at the end of each layer.

    The workers share the tokens of one batch, so that a question waits no longer for a running batch. Their number
    divides that of the cores; if no number does, `setup` is returned unchanged.
    """
    num_workers = max(number for number in range(1, MAX_WORKERS + 1) if setup.num_threads % number == 0)
    return replace(
        setup,
        num_workers=num_workers,
        num_threads=setup.num_threads // num_workers,
        batch_tokens=max(MIN_BATCH_TOKENS, setup.batch_tokens // num_workers),
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement: seconds for the sample, and the smallest cosine to float32's vectors."""

    seconds: float
    cosine: float

    @property
    def is_same(self) -> bool:
        return self.cosine >= MIN_COSINE


def fastest(measured: Mapping[tuple[Backend, NumberFormat], Measured]) -> tuple[Backend, NumberFormat]:
    """Returns the fastest way, or the first one if no other is clearly faster."""
    (known, reference), *others = measured.items()
    same = [(way, one) for way, one in others if one.is_same and one.seconds * _WORTH_A_CHANGE < reference.seconds]
    return min(same, key=lambda item: item[1].seconds)[0] if same else known


def best_number(seconds: Mapping[int, float], preferred: int, worth: float = WORTH_ANOTHER) -> int:
    """Returns the fastest number of threads, tokens or workers; the preferred one unless another is clearly faster.

    `worth` is how many times as fast another one must be.
    """
    best = min(seconds, key=lambda number: seconds[number])
    return best if seconds[best] * worth < seconds[preferred] else preferred


def batches(lengths: Sequence[int], setup: Setup, max_tokens: int) -> list[list[int]]:
    """Returns the indices of texts in batches of similar length, longest first, which reduces padding.

    Args:
        lengths: The length of each text in tokens.
        setup: Says how large a batch is.
        max_tokens: Longer texts are truncated.
    """
    by_length = sorted(range(len(lengths)), key=lambda index: lengths[index], reverse=True)
    made: list[list[int]] = []
    start = 0
    while start < len(by_length):
        size = setup.texts_per_batch(min(max_tokens, lengths[by_length[start]]))
        made.append(by_length[start : start + size])
        start += size
    return made
