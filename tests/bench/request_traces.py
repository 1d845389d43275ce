"""Traces of requests to a knowledge tree (the prefix tree of cached KV): API traffic and reading people.

- `azure`: documents have the lengths of prompts in the Azure LLM inference trace of conversations (2023), turns those
  of its answers; requests are independent.
- `drift`: the same, but popularity is drawn anew after every 500 requests.
- `qa`: three conversations at a time, each about a run of up to ten consecutive questions of SQuAD's dev set, over the
  paragraph with the answer and some beside it; prompts only grow.

Popularity follows Zipf's law such that 3 % of the documents (in `qa`, of the runs) take 60 % of the requests.
"""

from __future__ import annotations

import bisect
import csv
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.generation.knowledge_tree import Piece
from tests.bench.squad import read_squad
from tests.helpers.shared_data import SHARED_DATA

TRACE = SHARED_DATA / "traces" / "azure" / "data" / "AzureLLMInferenceTrace_conv.csv"
QUESTIONS = SHARED_DATA / "qa" / "squad" / "dev-v1.1.json"
POPULAR_SHARE, THEIR_REQUESTS = 0.03, 0.60
QUESTION_TOKENS = 32
DRIFT_EVERY, OPEN_CONVERSATIONS = 500, 3


@dataclass(frozen=True, slots=True)
class Request:
    """A question of a conversation: the documents found, best first, and the tokens of question and answer."""

    conversation: int
    documents: tuple[int, ...]
    turn_tokens: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Documents as pieces, and the requests about them."""

    name: str
    documents: tuple[Piece, ...]
    requests: tuple[Request, ...]

    @property
    def num_tokens(self) -> int:
        return sum(document.num_tokens for document in self.documents)


def traces(seed: int, num_requests: int) -> Iterator[Trace]:
    """Yields one trace of each kind."""
    yield azure_trace("azure", seed, num_requests, num_requests)
    yield azure_trace("drift", seed, num_requests, DRIFT_EVERY)
    yield qa_trace(seed, num_requests)


def azure_trace(name: str, seed: int, num_requests: int, drifts_every: int, num_documents: int = 4000) -> Trace:
    """Returns requests for 1 to 4 documents each, drawn by popularity alone."""
    random_ = random.Random(seed)
    with TRACE.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    lengths = [min(max(int(row["ContextTokens"]), 32), 2048) for row in rows]
    documents = [document(number, random_.choice(lengths)) for number in range(num_documents)]
    requests: list[Request] = []
    while len(requests) < num_requests:
        drawn = popular(random_, num_documents)
        for _ in range(drifts_every):
            answer_tokens = int(random_.choice(rows)["GeneratedTokens"])
            found = _distinct(drawn, random_.randint(1, 4))
            requests.append(Request(len(requests), found, QUESTION_TOKENS + answer_tokens))
    return Trace(name, tuple(documents), tuple(requests))


def qa_trace(seed: int, num_requests: int) -> Trace:
    """Returns conversations over SQuAD's paragraphs, with answers of a sentence or two."""
    random_ = random.Random(seed)
    squad = read_squad(QUESTIONS)
    documents = [document(number, len(text.split()) * 4 // 3) for number, text in enumerate(squad.paragraphs)]
    asked = [question.paragraph for question in squad.questions]
    conversations = _conversations(random_, asked, len(documents))
    open_ones = [next(conversations) for _ in range(OPEN_CONVERSATIONS)]
    requests: list[Request] = []
    while len(requests) < num_requests:
        place = random_.randrange(OPEN_CONVERSATIONS)
        request = next(open_ones[place], None)
        if request is None:
            open_ones[place] = next(conversations)
        else:
            requests.append(request)
    return Trace("qa", tuple(documents), tuple(requests))


def _conversations(random_: random.Random, asked: list[int], num_documents: int) -> Iterator[Iterator[Request]]:
    starts = random_.sample(range(len(asked)), len(asked) // 10)
    for number, place in enumerate(popular(random_, len(starts))):
        run = asked[starts[place] : starts[place] + random_.randint(1, 10)]
        yield iter([_question(random_, number, paragraph, num_documents) for paragraph in run])


def _question(random_: random.Random, conversation: int, paragraph: int, num_documents: int) -> Request:
    near = [each for each in range(paragraph - 3, paragraph + 4) if each != paragraph and 0 <= each < num_documents]
    found = (paragraph, *random_.sample(near, random_.randint(0, 3)))
    return Request(conversation, found, QUESTION_TOKENS + random_.randint(16, 96))


def popular(random_: random.Random, count: int) -> Iterator[int]:
    """Yields numbers below `count` by Zipf's law, endlessly."""
    falling = -exponent(count)
    weights = list(itertools.accumulate(rank**falling for rank in range(1, count + 1)))
    numbers = random_.sample(range(count), count)
    while True:
        yield numbers[bisect.bisect_left(weights, random_.random() * weights[-1])]


def exponent(count: int) -> float:
    """Returns the exponent of Zipf's law with which the most popular `POPULAR_SHARE` take `THEIR_REQUESTS`."""
    ranks = np.arange(1, count + 1, dtype=np.float64)
    low, high = 0.0, 4.0
    for _ in range(50):
        middle = (low + high) / 2
        weights = ranks**-middle
        taken = weights[: max(1, round(POPULAR_SHARE * count))].sum() / weights.sum()
        low, high = (low, middle) if taken > THEIR_REQUESTS else (middle, high)
    return low


def document(number: int, num_tokens: int) -> Piece:
    """Returns a piece whose first token is unique to it."""
    return Piece((number, *range(10**6, 10**6 + max(16, num_tokens) - 1)), frozenset({number}))


def _distinct(drawn: Iterator[int], count: int) -> tuple[int, ...]:
    found: dict[int, None] = {}
    while len(found) < count:
        found[next(drawn)] = None
    return tuple(found)
