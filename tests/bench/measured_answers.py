"""Results of answers that a side wrote at once: their tokens, times, and what its process read and met meanwhile."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tests.bench.process_marks import Marks


@dataclass(frozen=True, slots=True)
class MeasuredAnswers:
    """Writing begins when every answer has its first token, and ends with the first answer that is complete.

    `pass_seconds` are those of each pass while writing, `num_written` its tokens, `marks` the process's counters over
    that time. `checksums` are of the logits by which each token was chosen, if a side reports them. Only our side
    reports the rest: `streamed_bytes` of layers that the ring read while writing, `waited_seconds` for which computing
    waited for them, and at the end the `ledger_bytes` beside the kernel's count (`held_bytes`).
    """

    tokens: tuple[tuple[int, ...], ...]
    read_seconds: float
    pass_seconds: tuple[float, ...]
    num_written: int
    marks: Marks
    streamed_bytes: int = 0
    waited_seconds: float = 0.0
    ledger_bytes: int = 0
    held_bytes: int = 0
    checksums: tuple[tuple[int, ...], ...] = ()

    @property
    def tokens_per_second(self) -> float:
        return self.num_written / sum(self.pass_seconds)

    @property
    def whole_tokens_per_second(self) -> float:
        """Returns tokens of the answers ÷ all the time they took, including their prompts."""
        return sum(map(len, self.tokens)) / (self.read_seconds + sum(self.pass_seconds))

    @property
    def read_bytes_per_pass(self) -> float:
        """Returns what the process read from disks."""
        return self.marks.read_bytes / len(self.pass_seconds)

    @property
    def streamed_bytes_per_pass(self) -> float:
        return self.streamed_bytes / len(self.pass_seconds)

    def told(self) -> dict[str, Any]:
        """Returns the values as they are sent to the bench."""
        return asdict(self)

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        tokens, checksums = (tuple(map(tuple, told[name])) for name in ("tokens", "checksums"))
        parts = {
            "tokens": tokens,
            "checksums": checksums,
            "pass_seconds": tuple(told["pass_seconds"]),
            "marks": Marks(**told["marks"]),
        }
        return cls(**{**told, **parts})


def checksum(logits: NDArray[np.float32]) -> int:
    """Returns a checksum that is equal for bitwise equal logits."""
    return zlib.crc32(np.ascontiguousarray(logits))


def same_share(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> float:
    """Returns the share of answers that are the same token by token."""
    return sum(tuple(one) == tuple(other) for one, other in zip(ours, theirs, strict=True)) / len(ours)
