"""The load of the bench of the pool: questions for several models, when each comes, and how long it and its answer are.

They come by a Poisson process, the models as Zipf has it: one for half as many as the one before it, a third, and so
on. Lengths are those of the Azure conversations of 2023, to scale.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from tests.bench.azure import Length

# One token each with the bench models, whose vocabulary has them with the space before them.
WORDS = tuple(f"{consonant}{vowel}" for consonant in "bcdfghjklmnpqrstvwxyz" for vowel in "aeiou")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to the model of that number: when it comes, in seconds from the beginning, and what is written."""

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
    """The moments of a Poisson process, up to so many seconds."""
    random_ = random.Random(seed)
    at = random_.expovariate(per_second)
    while at < seconds:
        yield at
        at += random_.expovariate(per_second)


def questions(moments: Sequence[float], num_models: int, lengths: Sequence[Length], seed: int) -> list[Asked]:
    """A question for each moment; the first model is the most popular one."""
    random_ = random.Random(seed)
    weights = shares(num_models)
    asked = []
    for moment in moments:
        [model], length = random_.choices(range(num_models), weights), random_.choice(lengths)
        asked.append(Asked(words(length.prompt, random_), model, moment, length.answer))
    return asked


def shares(num_models: int) -> list[float]:
    """Of all questions, by Zipf's law."""
    weights = [1 / rank for rank in range(1, num_models + 1)]
    return [weight / sum(weights) for weight in weights]


def words(count: int, random_: random.Random) -> str:
    """A text of so many tokens."""
    return " ".join(random_.choices(WORDS, k=count))
