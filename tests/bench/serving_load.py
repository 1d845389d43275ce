"""Loads of the serving bench: arrival times of questions, the places they ask about, and how much is read and written.

Questions come by a Poisson process whose rate goes 4 → 16 → 4, or at the times of an Azure trace of 2023 (conversations
or code), scaled. Places in the documents are chosen by Zipf's law (request_traces.py). Lengths are those of the
conversations, or of code at the code trace's times.
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

# Relative rates of three phases of equal duration.
PHASES = (4.0, 16.0, 4.0)
# Questions about a place use different words among these tokens, and have about the same passages as evidence.
PLACE_TOKENS, QUESTION_TOKENS, QUESTION_CHARACTERS = 64, 40, 120
LEAST_ANSWER_TOKENS = 2
# The embedder's tokenizer pads shorter documents to this length with tokens outside the text.
LEAST_TOKENS = 128

Arrivals = Literal["poisson", "poisson_own", "azure", "code", "alone", "at_once"]
# Arrivals with a single load each, so its name needs no factor.
_ONLY_ONE = ("poisson_own", "alone", "at_once")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: its arrival in seconds from the first, the number of passages to read, and the answer's length.

    `evidence` is what a peer's model reads (serving_evidence.py); if empty, it reads what it finds itself.
    """

    text: str
    arrival_s: float
    passages: int
    answer_tokens: int
    evidence: tuple[str, ...] = ()

    def read(self, found: Sequence[str]) -> Sequence[str]:
        """Returns what the model of a peer that found `found` reads."""
        return self.evidence or found

    def told(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        return cls(**{**told, "evidence": tuple(told["evidence"])})


@dataclass(frozen=True, slots=True)
class Place:
    """Tokens of a document that questions are about."""

    text: int
    start: int


@dataclass(frozen=True, slots=True)
class Extent:
    """Scales the trace's lengths to what the machine can do in time.

    A passage stands for a number of prompt tokens, a written token for a number of answer tokens; both are capped.
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
    """Questions with one kind of arrivals, at `factor` times the rate at which the serial peer can answer them.

    `poisson_own`: relative to the rate of `serial_batched` instead. `alone`: each comes after the previous answer;
    `at_once`: all come at the start. The factor has no meaning for the last two.
    """

    arrivals: Arrivals
    factor: float = 0.0

    @property
    def name(self) -> str:
        return self.arrivals if self.arrivals in _ONLY_ONE else f"{self.arrivals}_{self.factor:g}"


def arrivals_of(load: Load, count: int, capacity_per_s: float, stamps: Sequence[float], seed: int) -> list[float]:
    """Returns the arrival times of `count` questions, in seconds."""
    match load.arrivals:
        case "alone" | "at_once":
            return [0.0] * count
        case "azure" | "code":
            return recorded(stamps, count, load.factor * capacity_per_s, seed)
        case "poisson" | "poisson_own":
            return moving_poisson(count, load.factor * capacity_per_s, seed)


def moving_poisson(count: int, per_second: float, seed: int, phases: Sequence[float] = PHASES) -> list[float]:
    """Returns arrival times of a Poisson process with changing rate; the mean over all phases is `per_second`."""
    seconds = count / per_second / len(phases)
    # Expected number of arrivals by the end of each phase.
    expected = [count * part / sum(phases) for part in itertools.accumulate(phases)]
    random_ = random.Random(seed)
    passed = itertools.accumulate(random_.expovariate(1.0) for _ in range(count))
    return [_moment(number, expected, seconds) for number in passed]


def _moment(number: float, expected: Sequence[float], phase_seconds: float) -> float:
    """Returns when `number` arrivals are expected; the last phase lasts as long as needed."""
    place = next((place for place, end in enumerate(expected[:-1]) if number < end), len(expected) - 1)
    before = expected[place - 1] if place else 0.0
    return phase_seconds * (place + (number - before) / (expected[place] - before))


def recorded(stamps: Sequence[float], count: int, per_second: float, seed: int) -> list[float]:
    """Returns a seeded stretch of recorded times, scaled to `per_second`."""
    first = random.Random(seed).randrange(len(stamps) - count + 1)
    taken = stamps[first : first + count]
    scale = (count - 1) / per_second / (taken[-1] - taken[0])
    return [(stamp - taken[0]) * scale for stamp in taken]


def read_stamps(file: Path) -> list[float]:
    """Returns the time of each request of an Azure trace in seconds, in order."""
    with file.open(encoding="utf-8", newline="") as lines:
        # The trace has seven decimals, one more than Python accepts.
        return [datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in csv.DictReader(lines)]


def places(library: Library, count: int) -> list[Place]:
    """Returns a seeded choice of places, from the documents in turn."""
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
    """Yields a question for each arrival; for one seed, the same ones whatever the arrivals."""
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
