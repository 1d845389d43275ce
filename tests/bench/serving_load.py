"""The load of the bench of serving: when questions come, which places they ask about, and how much is read and written.

Questions come by a Poisson process whose rate goes 4 → 16 → 4, or at the moments of an Azure trace of 2023, of
conversations or of code, all to scale. Places of the documents are asked about as Zipf has it (request_traces.py);
lengths are those of the conversations, or of code where questions come as that was asked for.
"""

from __future__ import annotations

import csv
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from tests.bench.azure import Length
from tests.bench.real_library import SEED, Library
from tests.bench.request_traces import popular

# Rates of three stretches of the same length, in relation to each other.
PHASES = (4.0, 16.0, 4.0)
# Questions about a place have different words of these tokens, and about the same passages answer them.
PLACE_TOKENS, QUESTION_TOKENS, QUESTION_CHARACTERS = 64, 40, 120
LEAST_ANSWER_TOKENS = 2
# The embedder's tokenizer fills shorter documents up to so many, with tokens of no text.
LEAST_TOKENS = 128

Arrivals = Literal["poisson", "poisson_own", "azure", "code", "alone", "at_once"]
# Those of whom only one is ever asked.
_ONLY_ONE = ("poisson_own", "alone", "at_once")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: when it comes, in seconds from the first, how many passages are read for it, and what is written.

    `evidence` is what a peer's model is to read for it (serving_evidence.py); empty where that is what it finds itself.
    """

    text: str
    arrival_s: float
    passages: int
    answer_tokens: int
    evidence: tuple[str, ...] = ()

    def read(self, found: Sequence[str]) -> Sequence[str]:
        """What a peer's model reads that `found` this."""
        return self.evidence or found

    def told(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        return cls(**{**told, "evidence": tuple(told["evidence"])})


@dataclass(frozen=True, slots=True)
class Place:
    """Some tokens of a document that people ask about."""

    text: int
    start: int


@dataclass(frozen=True, slots=True)
class Extent:
    """What becomes of the trace's lengths, so that the machine does it in time.

    A passage is read for so many tokens of a prompt, a token is written for so many of an answer; both have a most.
    """

    prompt_tokens_per_passage: int
    most_passages: int
    answer_divisor: int
    most_answer_tokens: int

    def passages(self, length: Length) -> int:
        return min(self.most_passages, max(1, round(length.prompt / self.prompt_tokens_per_passage)))

    def answer_tokens(self, length: Length) -> int:
        return min(self.most_answer_tokens, max(LEAST_ANSWER_TOKENS, round(length.answer / self.answer_divisor)))


@dataclass(frozen=True, slots=True)
class Load:
    """Questions that come in one way, so many times as fast as the serial peer can answer them.

    `poisson_own`: as fast as `serial_batched` can, in its gangs. `alone`: each comes when the one before it was
    answered; `at_once`: all come at the beginning; the factor means nothing there.
    """

    arrivals: Arrivals
    factor: float = 0.0

    @property
    def name(self) -> str:
        return self.arrivals if self.arrivals in _ONLY_ONE else f"{self.arrivals}_{self.factor:g}"


def arrivals_of(load: Load, count: int, capacity_per_s: float, stamps: Sequence[float], seed: int) -> list[float]:
    """When so many questions come, in seconds."""
    match load.arrivals:
        case "alone" | "at_once":
            return [0.0] * count
        case "azure" | "code":
            return recorded(stamps, count, load.factor * capacity_per_s, seed)
        case "poisson" | "poisson_own":
            return moving_poisson(count, load.factor * capacity_per_s, seed)


def moving_poisson(count: int, per_second: float, seed: int, phases: Sequence[float] = PHASES) -> list[float]:
    """So many moments of a Poisson process whose rate changes; over all phases it is `per_second`."""
    seconds = count / per_second / len(phases)
    # How many are expected by the end of each phase.
    expected = [count * part / sum(phases) for part in itertools.accumulate(phases)]
    random_ = random.Random(seed)
    passed = itertools.accumulate(random_.expovariate(1.0) for _ in range(count))
    return [_moment(number, expected, seconds) for number in passed]


def _moment(number: float, expected: Sequence[float], phase_seconds: float) -> float:
    """When so many are expected to have come; the last phase goes on for as long as it takes."""
    place = next((place for place, end in enumerate(expected[:-1]) if number < end), len(expected) - 1)
    before = expected[place - 1] if place else 0.0
    return phase_seconds * (place + (number - before) / (expected[place] - before))


def recorded(stamps: Sequence[float], count: int, per_second: float, seed: int) -> list[float]:
    """A seeded stretch of recorded moments, stretched or squeezed until so many come a second."""
    first = random.Random(seed).randrange(len(stamps) - count + 1)
    taken = stamps[first : first + count]
    scale = (count - 1) / per_second / (taken[-1] - taken[0])
    return [(stamp - taken[0]) * scale for stamp in taken]


def read_stamps(file: Path) -> list[float]:
    """When each request of an Azure trace came, in seconds, in order."""
    with file.open(encoding="utf-8", newline="") as lines:
        # Seven digits of a second are one more than Python has.
        return [datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in csv.DictReader(lines)]


def places(library: Library, count: int) -> list[Place]:
    """A seeded choice, dealt out to the documents in turn."""
    choose = random.Random(SEED)
    long = [number for number, text in enumerate(library.texts) if len(text.offsets) > LEAST_TOKENS]
    numbers = itertools.islice(itertools.cycle(long), count)
    return [Place(number, choose.randrange(len(library.texts[number].offsets) - PLACE_TOKENS)) for number in numbers]


def questions(
    library: Library,
    asked_about: Sequence[Place],
    arrivals: Sequence[float],
    lengths: Sequence[Length],
    extent: Extent,
    seed: int,
) -> Iterator[Asked]:
    """A question for each arrival; the same ones for the same seed, whenever they come."""
    random_ = random.Random(seed)
    drawn = popular(random_, len(asked_about))
    for arrival_s in arrivals:
        place, length = asked_about[next(drawn)], random_.choice(lengths)
        start = place.start + random_.randrange(PLACE_TOKENS - QUESTION_TOKENS)
        words = library.texts[place.text].between(start, start + QUESTION_TOKENS)
        yield Asked(
            text=" ".join(words.split())[:QUESTION_CHARACTERS],
            arrival_s=arrival_s,
            passages=extent.passages(length),
            answer_tokens=extent.answer_tokens(length),
        )
