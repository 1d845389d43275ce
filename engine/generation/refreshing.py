"""The state of refreshing one answer: when it searches again, what was found, and when that is added.

It is notified of the answer's tokens as they are written; otherwise it depends only on a clock. refresh_policy.py makes
the choices, and refreshes.py carries them out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.core import Passage
from engine.generation.refresh_policy import (
    INTERVALS,
    RefreshPolicy,
    affordable_tokens,
    chosen_interval,
    is_sentence_end,
    window_of,
)

# No more than this is read at a time, even without a limit on costs.
MAX_ADDED_TOKENS = 1024
# The time per token is a mean over about this many, because it grows with the length of the text.
_RECENT_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Costs:
    """What the performance model predicts, in seconds.

    `reading` takes the tokens before and the tokens to read, `writing` the tokens before and the tokens to write;
    `retrieval` returns the time of the next search.
    """

    reading: Callable[[int, int], float]
    writing: Callable[[int, int], float]
    retrieval: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Window:
    """What to search for: the end of the written text; the search may take `seconds`."""

    text: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Fresh:
    """What a search found; for `hidden_s` of its `retrieval_s`, the answer was written as fast as without it."""

    passages: tuple[Passage, ...]
    retrieval_s: float
    hidden_s: float


@dataclass(slots=True)
class _Look:
    """A search that runs or has just returned, and the time that writing took meanwhile."""

    writing_s: float = 0.0
    num_tokens: int = 0
    retrieval_s: float | None = None
    passages: tuple[Passage, ...] = ()


class Refreshing:
    """Refreshes one answer; on the generation thread.

    `interval` is m', or None until it is chosen. `holds_up`: the policy makes the answer wait for the search.
    """

    def __init__(self, policy: RefreshPolicy, costs: Costs, typical_tokens: int, now: float) -> None:
        """Starts before the first token is written; `typical_tokens` is the expected length of an addition."""
        self._policy, self._costs, self._typical_tokens = policy, costs, typical_tokens
        self.interval = policy.interval
        self._written_at = now
        self._num_tokens = self._num_at_look = self._num_at_refresh = 0
        self._quiet_s = self._num_quiet = 0.0
        self._writing_s = self._spent_s = self._delayed_s = 0.0
        self._look: _Look | None = None
        self._fresh: Fresh | None = None
        self._is_reading = False
        self.num_looks = self.num_refreshes = 0
        self.retrieval_s = self.hidden_s = self.prefill_s = 0.0

    @property
    def holds_up(self) -> bool:
        return self._policy.mode == "synchronous" and self._look is not None and self._look.retrieval_s is None

    def note_tokens(self, num_tokens: int, now: float) -> None:
        """Learns that `num_tokens` more were written since the last call."""
        seconds, self._written_at = now - self._written_at, now
        is_first, self._num_tokens = self._num_tokens == 0, self._num_tokens + num_tokens
        if is_first:
            # This time includes reading the prompt.
            return
        if self._is_reading:
            self._note_read(num_tokens, seconds)
            return
        if self._look is None:
            kept = (1 - 1 / _RECENT_TOKENS) ** num_tokens
            self._quiet_s = kept * self._quiet_s + seconds
            self._num_quiet = kept * self._num_quiet + num_tokens
            self._writing_s += seconds
            return
        self._look.writing_s += seconds
        self._look.num_tokens += num_tokens
        self._writing_s += min(seconds, self._usual_s(num_tokens))
        if self._look.retrieval_s is not None:
            self._settle(self._look, self._look.retrieval_s)

    def wants_to_look(self, told: str, written: str, length: int) -> Window | None:
        """Returns what to search for, if it is time; `length` tokens were read and written in all.

        The query is the end of the shown text `told`; `written` shows whether a sentence ends.
        """
        policy = self._policy
        is_open = self._look is None and self._fresh is None and not self._is_reading
        may_look = self.num_refreshes < policy.most_refreshes and self.num_looks < policy.max_looks
        if not (is_open and may_look) or self._num_tokens < INTERVALS[0]:
            return None
        if self.interval is None:
            self.interval = chosen_interval(self._costs.retrieval(), lambda count: self._computing_s(count, length))
        is_due = self._num_tokens - self._num_at_look >= self.interval
        if not is_due or (policy.mode == "synchronous" and not is_sentence_end(written)):
            return None
        if self._costs.reading(length, self._typical_tokens) > self._earned_s():
            return None
        self._look, self._num_at_look = _Look(), self._num_tokens
        self.num_looks += 1
        return Window(window_of(told), self._computing_s(self.interval, length))

    def take(self, passages: Sequence[Passage], seconds: float, now: float) -> None:
        """Takes in the result of a search that took `seconds`; it may be empty."""
        if self._look is not None:
            self._look.retrieval_s, self._look.passages = seconds, tuple(passages)
            if self._policy.mode == "synchronous":
                self._written_at = now
                self._settle(self._look, seconds)

    def fresh(self, written: str) -> Fresh | None:
        """Returns what was found, once the model has written to the end of a sentence; otherwise None."""
        is_new = self._num_tokens > self._num_at_refresh
        return self._fresh if self._fresh is not None and is_new and is_sentence_end(written) else None

    def affordable(self, length: int, most: int = MAX_ADDED_TOKENS) -> int:
        """Returns how many tokens may be read now, up to `most`, given the time that writing has taken so far."""
        if self._policy.max_cost_share is None:
            return most
        return affordable_tokens(self._earned_s(), lambda count: self._costs.reading(length, count), most)

    def note_added(self) -> None:
        """Records that what was found is being read."""
        self._is_reading, self._fresh = True, None
        self._num_at_refresh = self._num_tokens
        self.num_refreshes += 1

    def give_up(self) -> None:
        """Drops what was found, because it cannot be read or is too long."""
        self._fresh = None

    def _earned_s(self) -> float:
        """Returns the seconds that may be spent now on reading more, and on delays by searching for it."""
        share = self._policy.max_cost_share
        return math.inf if share is None else share * self._writing_s - self._spent_s

    def _note_read(self, num_tokens: int, seconds: float) -> None:
        self._is_reading = False
        reading_s = max(0.0, seconds - self._usual_s(num_tokens))
        self.prefill_s += reading_s
        self._spent_s += reading_s
        self._writing_s += seconds - reading_s

    def _settle(self, look: _Look, retrieval_s: float) -> None:
        """Ends a search: its cost is how much longer writing took than it would have without it.

        Times of tokens vary by chance. So faster tokens make up for slower ones, including those during other searches;
        otherwise chance alone would count as a cost.
        """
        self._look = None
        delay_s = look.writing_s - self._usual_s(look.num_tokens)
        if self._policy.mode == "synchronous":
            # Nothing was written meanwhile.
            delay_s = retrieval_s
        lost_before_s = self.retrieval_s - self.hidden_s
        self._delayed_s += min(retrieval_s, max(-retrieval_s, delay_s))
        self.retrieval_s += retrieval_s
        lost_s = min(self.retrieval_s, max(0.0, self._delayed_s))
        self.hidden_s = self.retrieval_s - lost_s
        self._spent_s += lost_s - lost_before_s
        if look.passages:
            self._fresh = Fresh(look.passages, retrieval_s, retrieval_s - min(retrieval_s, max(0.0, delay_s)))

    def _usual_s(self, num_tokens: int) -> float:
        """Returns the usual seconds of `num_tokens` without a search."""
        return num_tokens * self._quiet_s / self._num_quiet if self._num_quiet else 0.0

    def _computing_s(self, num_tokens: int, length: int) -> float:
        """Returns T_C of an interval: reading what is appended in it, and writing its tokens."""
        return self._costs.reading(length, self._typical_tokens) + self._costs.writing(length, num_tokens)
