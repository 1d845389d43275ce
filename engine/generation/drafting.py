"""Prompt lookup: answers quote their sources, so what follows the last words in a passage is likely to come next.

A draft is verified in one pass with the token before it, and changes nothing about an answer but its time
(https://arxiv.org/abs/2304.04487; the name is from https://github.com/apoorvumang/prompt-lookup-decoding). The best
length of a draft follows from two things that are measured while answers are written: how often the token predicted
after a match of a given length was right, and what a pass of a given number of tokens takes. The first is free, because
every written token is compared with the prediction, whether that was drafted or not. Answers that are written side by
side share their passes, so the length of each draft follows from all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from engine.generation.request import Request
from engine.generation.rows import AT_ONCE
from engine.generation.sequence import Guess
from engine.memory.workspace import ROWS_OF_AN_ANSWER

MAX_DRAFT_TOKENS = ROWS_OF_AN_ANSWER - 1
# The gain must exceed the error of the measurements.
MIN_GAIN = 1.05
MATCH_TOKENS = 2
MAX_MATCH_TOKENS = 32
MAX_PLACES = 64
# The cost of each further token, in passes of one token, as long as nothing larger was measured.
_GUESSED_SHARE = 0.25
# A pass that was delayed says little about the next one; a faster one says much.
_FASTER_WEIGHT, _SLOWER_WEIGHT, _HELD_UP = 0.3, 0.1, 3.0
_REMEMBERED_PASSES = 256
# How far beyond the largest measured pass the last line is extended.
_KNOWN_AHEAD = 2
# A token that is less likely than this adds nothing to a draft.
_HOPELESS = 0.002
_PRIOR_WEIGHT, _MEMORY = 2.0, 0.98


@dataclass(slots=True)
class _Measured:
    """Passes of about the same size: their means, and which pass was the last of them."""

    tokens: float
    seconds: float
    last_pass: int


class PassCosts:
    """The seconds of a pass by the number of its tokens: sizes that were measured, and straight lines between them.

    A size that was not seen for long is forgotten, so that an old delay does not count forever.
    """

    def __init__(self) -> None:
        self._num_passes = 0
        self._is_drawn = True
        self._by_size: dict[int, _Measured] = {}
        self._sizes: list[float] = []
        self._seconds: list[float] = []

    def note(self, num_tokens: int, num_writing: int, seconds: float) -> None:
        """Notes a pass of `num_tokens` tokens, in which `num_writing` sequences wrote.

        Passes that read much of a prompt are left out: a large batch says little about what a few rows cost.
        """
        if not num_writing or num_tokens > num_writing * (1 + MAX_DRAFT_TOKENS):
            return
        self._num_passes += 1
        measured = self._by_size.setdefault(_size(num_tokens), _Measured(num_tokens, seconds, 0))
        weight = _FASTER_WEIGHT if seconds < measured.seconds else _SLOWER_WEIGHT
        measured.tokens += weight * (num_tokens - measured.tokens)
        measured.seconds += weight * (min(seconds, _HELD_UP * measured.seconds) - measured.seconds)
        measured.last_pass = self._num_passes
        self._is_drawn = False

    def seconds(self, num_tokens: int) -> float | None:
        """Returns how long a pass of `num_tokens` is expected to take; None if nothing close was measured."""
        if not self._is_drawn:
            # Not at every pass: most are followed by no draft, and code that rarely runs is slow.
            self._draw_lines()
        sizes, seconds = self._sizes, self._seconds
        if not sizes or num_tokens > max(AT_ONCE, _KNOWN_AHEAD * sizes[-1]):
            return None
        if len(sizes) == 1:
            return seconds[0] * (1 + _GUESSED_SHARE * max(0.0, num_tokens / sizes[0] - 1))
        above = min(max(bisect_left(sizes, num_tokens), 1), len(sizes) - 1)
        slope = (seconds[above] - seconds[above - 1]) / (sizes[above] - sizes[above - 1])
        return seconds[above - 1] + slope * (num_tokens - sizes[above - 1])

    def _draw_lines(self) -> None:
        self._is_drawn = True
        oldest = self._num_passes - _REMEMBERED_PASSES
        self._by_size = {size: known for size, known in self._by_size.items() if known.last_pass >= oldest}
        known = sorted(self._by_size.values(), key=lambda measured: measured.tokens)
        self._sizes = [measured.tokens for measured in known]
        # More tokens never take less time: if it looks so, the smaller pass was delayed or the larger one lucky.
        self._seconds = list(accumulate((measured.seconds for measured in known), max))


class Acceptance:
    """How often the token after a match was right, by the length of the match; recent ones count most."""

    def __init__(self) -> None:
        self._hits: dict[int, float] = defaultdict(float)
        self._trials: dict[int, float] = defaultdict(float)

    def note(self, match: int, is_hit: bool) -> None:
        kind = match.bit_length()
        self._hits[kind] = _MEMORY * self._hits[kind] + is_hit
        self._trials[kind] = _MEMORY * self._trials[kind] + 1

    def likely(self, match: int) -> float:
        """Returns how likely the token after such a match is right; with little data, more so the longer the match."""
        kind = match.bit_length()
        prior = match / (match + 2)
        return (self._hits[kind] + _PRIOR_WEIGHT * prior) / (self._trials[kind] + _PRIOR_WEIGHT)


def _size(num_tokens: int) -> int:
    """Returns the size under which a pass is measured: exact if small; large ones of similar size are grouped."""
    digits = max(0, num_tokens.bit_length() - 6)
    return num_tokens >> digits << digits


def draft_lengths(guesses: Sequence[Guess], num_writing: int = 1) -> list[int]:
    """Returns how many tokens of each guess to draft, so that most tokens are written per second: 0 if none pays.

    A token adds the probability that it and all before it are right, so the likeliest of all answers come first.
    Processors compute rows in fours and devices in more, so that a pass of five takes much longer than one of four: a
    pass with drafts has a multiple of four.

    Args:
        guesses: Of the sequences that write in the pass; a guess may be empty.
        num_writing: Sequences that write a token each in it.
    """
    seconds = next((guess.pass_seconds for guess in guesses if guess.pass_seconds is not None), None)
    if seconds is None:
        return [len(guess.tokens) for guess in guesses]
    lengths = [0] * len(guesses)
    alone = seconds(num_writing)
    if alone is None or alone <= 0:
        return lengths
    chances = ((chance, index) for index, guess in enumerate(guesses) for chance in accumulate(guess.likely, mul))
    # In a tie, in the order of the guesses.
    ranked = sorted(chances, key=lambda one: (-one[0], one[1]))
    best, best_rate, expected = 0, MIN_GAIN * num_writing / alone, float(num_writing)
    for count, (chance, _) in enumerate(ranked, start=1):
        expected += chance
        if chance < _HOPELESS:
            break
        taken = seconds(num_writing + count) if (num_writing + count) % AT_ONCE == 0 else None
        if taken and expected / taken > best_rate:
            best, best_rate = count, expected / taken
    for _, index in ranked[:best]:
        lengths[index] += 1
    return lengths


class PromptLookup:
    """Drafts one answer from the passages it may quote and from what it has written; see the module."""

    def __init__(self, request: Request, costs: PassCosts) -> None:
        self._costs = costs
        self._acceptance = Acceptance()
        self._source = list(request.quotable)
        self._places: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place in range(2, len(self._source)):
            self._places[self._source[place - 2], self._source[place - 1]].append(place)
        self._num_seen = request.num_tokens
        self._num_quotable = len(self._source)
        # Where in the source the next token is predicted, and how many tokens before that match the last ones written.
        self._place: int | None = None
        self._match = 0

    def draft(self, tokens: Sequence[int], max_tokens: int) -> Guess:
        """Returns at most `max_tokens` tokens that may follow `tokens`, the prompt and what was written."""
        while self._num_seen < len(tokens):
            self._see(tokens)
        if self._place is None:
            return Guess()
        foretold = self._source[self._place : self._place + min(max_tokens, MAX_DRAFT_TOKENS)]
        likely = [self._acceptance.likely(self._match + index) for index in range(len(foretold))]
        return Guess(foretold, likely, self._costs.seconds)

    def read(self, tokens: Sequence[int], num_read: int) -> None:
        """Notes that the last `num_read` of `tokens` came from elsewhere: they can be quoted, and confirm no guess."""
        while self._num_seen < len(tokens) - num_read:
            self._see(tokens)
        self._place, self._match = None, 0
        for token in tokens[self._num_seen :]:
            self._source.append(token)
            self._remember_last()
        self._num_seen = len(tokens)

    def _see(self, tokens: Sequence[int]) -> None:
        """Takes in the next written token: it confirms or refutes the prediction, and joins the source."""
        token = tokens[self._num_seen]
        self._num_seen += 1
        is_hit = self._place is not None and self._source[self._place] == token
        if self._place is not None:
            self._acceptance.note(self._match, is_hit)
        self._source.append(token)
        if is_hit and self._place is not None:
            self._place, self._match = self._place + 1, min(self._match + 1, MAX_MATCH_TOKENS)
        else:
            self._look_up(tokens)
        self._remember_last()

    def _remember_last(self) -> None:
        # What was just written can be found once something follows it.
        if len(self._source) - self._num_quotable > MATCH_TOKENS:
            self._places[self._source[-3], self._source[-2]].append(len(self._source) - 1)

    def _look_up(self, tokens: Sequence[int]) -> None:
        """Finds the place whose preceding tokens match most of what was written."""
        self._place, self._match = None, 0
        end = self._num_seen
        for place in reversed(self._places.get((tokens[end - 2], tokens[end - 1]), [])[-MAX_PLACES:]):
            match = self._match_before(place, tokens, end)
            if match > self._match:
                self._place, self._match = place, match

    def _match_before(self, place: int, tokens: Sequence[int], end: int) -> int:
        longest = min(MAX_MATCH_TOKENS, place, end)
        for length in range(MATCH_TOKENS, longest):
            if self._source[place - 1 - length] != tokens[end - 1 - length]:
                return length
        return longest
