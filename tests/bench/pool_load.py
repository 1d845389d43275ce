"""The load of the pool bench: questions for several models, their arrivals and lengths.

Questions come by a Poisson process. The models follow Zipf's law: the second is asked half as often as the first, the
third a third as often, and so on. Lengths are those of the Azure conversations of 2023, scaled down.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from tests.bench.azure import Length

# Single tokens of the bench models, whose vocabulary has them with their leading space.
WORDS = tuple(f"{consonant}{vowel}" for consonant in "bcdfghjklmnpqrstvwxyz" for vowel in "aeiou")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a model: its text, its arrival in seconds from the start, and the length of its answer."""

    text: str
    model: int
    arrival_s: float
    answer_tokens: int

    def told(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        return cls(**told)


def arrivals(per_second: float, seconds: float, seed: int) -> Iterator[float]:
    """Yields the times of a Poisson process, up to `seconds`."""
    random_ = random.Random(seed)
    at = random_.expovariate(per_second)
    while at < seconds:
        yield at
        at += random_.expovariate(per_second)


def questions(moments: Sequence[float], num_models: int, lengths: Sequence[Length], seed: int) -> list[Asked]:
    """Returns a question for each time; the first model is the most popular."""
    random_ = random.Random(seed)
    weights = shares(num_models)
    asked = []
    for moment in moments:
        [model], length = random_.choices(range(num_models), weights), random_.choice(lengths)
        asked.append(Asked(words(length.prompt, random_), model, moment, length.answer))
    return asked


def shares(num_models: int) -> list[float]:
    """Returns each model's share of the questions, by Zipf's law."""
    weights = [1 / rank for rank in range(1, num_models + 1)]
    return [weight / sum(weights) for weight in weights]


def words(count: int, random_: random.Random) -> str:
    """Returns a text of `count` tokens."""
    return " ".join(random_.choices(WORDS, k=count))
