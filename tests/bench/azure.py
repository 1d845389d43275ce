"""Realistic prompt and answer lengths: the Azure LLM inference traces of 2023 (CC BY 4.0), scaled down."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.shared_data import SHARED_DATA

_TRACES = SHARED_DATA / "traces" / "azure" / "data"
CONVERSATIONS = _TRACES / "AzureLLMInferenceTrace_conv.csv"
CODE = _TRACES / "AzureLLMInferenceTrace_code.csv"


@dataclass(frozen=True, slots=True)
class Length:
    """Tokens of a prompt and of its answer."""

    prompt: int
    answer: int

    @property
    def total(self) -> int:
        return self.prompt + self.answer


@dataclass(frozen=True, slots=True)
class Scale:
    """Divisors for prompt and answer lengths, and the maximum of both together."""

    prompt_divisor: float
    answer_divisor: float
    most: int

    def __call__(self, length: Length) -> Length | None:
        """Returns the scaled length, with at least one token each; None if it exceeds the maximum."""
        prompt, answer = length.prompt / self.prompt_divisor, length.answer / self.answer_divisor
        scaled = Length(max(1, round(prompt)), max(1, round(answer)))
        return scaled if scaled.total <= self.most else None


def read_lengths(file: Path) -> list[Length]:
    """Returns the lengths of all requests of a trace, in order."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [Length(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in csv.DictReader(lines)]


def sample(lengths: list[Length], count: int, scale: Scale, seed: int) -> list[Length]:
    """Returns a seeded sample of requests at this scale."""
    scaled = [fitting for length in lengths if (fitting := scale(length)) is not None]
    return random.Random(seed).sample(scaled, count)
