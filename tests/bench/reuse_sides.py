"""Sides of the bench of recurring documents: our engine, llama-server and llama-cpp-python, behind one interface."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from engine.config import GenerationSettings
from engine.generation.keeping import Found
from engine.generation.ordering import along_kept
from engine.generation.segment import Segment, tokens_of
from engine.generation.shared_prefill import ReadingTrail
from engine.generation.trail import Trail, after, whole
from tests.bench.llama_peer import LlamaProcess
from tests.bench.llama_server import DEFAULT_SLOTS, LlamaServer
from tests.bench.our_generation import OurGeneration, greedy
from tests.bench.recurring import Ask, Search

ANSWER_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an answer began; `computed_tokens` is None and `tokens` is empty where a side does not report them."""

    seconds: float
    computed_tokens: int | None = None
    tokens: tuple[int, ...] = ()


class Side(Protocol):
    """A system that answers questions, and caches what it chooses."""

    def ask(self, ask: Ask) -> Outcome: ...

    def questions_per_second(self, asks: Sequence[Ask]) -> float: ...


class CrowdSide(Side, Protocol):
    """A side that accepts questions while others are being answered."""

    def as_they_come(self, asks: Sequence[Ask], arrivals: Sequence[float]) -> list[float]:
        """Returns the seconds from each question's arrival (in seconds from now) to its first token."""
        ...


@dataclass(slots=True)
class DecisionTimes:
    """Times of decisions, on the processor and on the wall clock, which also counts what other threads take."""

    cpu_seconds: list[float] = field(default_factory=list)
    wall_seconds: list[float] = field(default_factory=list)

    @contextmanager
    def noted(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.thread_time()
        yield
        self.cpu_seconds.append(time.thread_time() - cpu)
        self.wall_seconds.append(time.perf_counter() - wall)


@dataclass
class Ours:
    generation: OurGeneration
    reorder_loss: float = field(default_factory=lambda: GenerationSettings().reorder_loss)
    decisions: DecisionTimes = field(default_factory=DecisionTimes)
    num_asked: int = 0
    _uses: Counter[Segment] = field(default_factory=Counter)
    _asks: dict[str, Ask] = field(default_factory=dict)
    _reads_known: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.generation.before_step = self._order_anew
        if (keeper := self.generation.keeper) is not None:
            keeper.find = self._timed(keeper.find)  # type: ignore[method-assign]

    def ask(self, ask: Ask) -> Outcome:
        begun = time.perf_counter()
        answered = self.generation.ask(*self._asked(ask), greedy(ANSWER_TOKENS))
        assert answered.read is not None
        seconds = answered.token_times[0] - begun
        return Outcome(seconds, answered.read.computed_tokens, answered.answers[0].tokens)

    def questions_per_second(self, asks: Sequence[Ask]) -> float:
        begun = time.perf_counter()
        asked = map(self._asked, asks)
        self.generation.answer_all(asked, greedy(ANSWER_TOKENS), DEFAULT_SLOTS)
        return len(asks) / (time.perf_counter() - begun)

    def as_they_come(self, asks: Sequence[Ask], arrivals: Sequence[float]) -> list[float]:
        begun, generation, names = time.perf_counter(), self.generation, list[str]()
        waiting = deque(zip(arrivals, asks, strict=True))
        while waiting or generation.loop.has_work:
            while waiting and begun + waiting[0][0] <= time.perf_counter():
                name, segments = self._asked(waiting.popleft()[1])
                names.append(name)
                generation.submit(name, segments, greedy(ANSWER_TOKENS))
            if generation.loop.has_work:
                generation.step()
            elif waiting:
                self._pass_time(begun + waiting[0][0])
        firsts = (generation.answered[name].token_times[0] for name in names)
        return [first - begun - arrival for first, arrival in zip(firsts, arrivals, strict=True)]

    def first_token_after_search(self, ask: Ask, search: Search, is_speculative: bool) -> float:
        """Returns seconds from a search's start to the first token; intermediate results are read if speculative.

        Like reading_ahead.py: a guess is the whole prompt with nothing to generate. The next guess, and then the
        question, continues what it has read if both begin alike; otherwise it is cancelled.
        """
        begun, name, guess = time.perf_counter(), "", list[Segment]()
        for stage in search.stages:
            self._pass_time(begun + stage.seconds)
            wanted = self._ordered_ahead(replace(ask, passages=stage.passages), name)
            if not is_speculative or wanted == guess:
                continue
            if not guess or not self.generation.amend(name, wanted):
                self.generation.loop.cancel(name)
                name = self._name()
                self.generation.submit(name, wanted, greedy(0))
            guess = wanted
        asked, segments = self._asked(replace(ask, passages=search.stages[-1].passages))
        if guess and self.generation.go_on_as(asked, name, guess, greedy(1)):
            return self.generation.answer(asked).token_times[0] - begun
        while self.generation.loop.has_work:
            self.generation.step()
        return self.generation.ask(asked, segments, greedy(1)).token_times[0] - begun

    def _pass_time(self, until: float) -> None:
        while (left := until - time.perf_counter()) > 0:
            if self.generation.loop.has_work:
                self.generation.step()
            else:
                time.sleep(left)

    def _asked(self, ask: Ask) -> tuple[str, list[Segment]]:
        """Returns name and prompt of a question that is submitted now."""
        name, segments = self._name(), self.ordered(ask)
        self._uses.update(ask.passages)
        self._asks[name] = ask
        return name, segments

    def _order_anew(self) -> None:
        """Reorders waiting questions' passages along what was read since they were submitted; as in under_way.py."""
        loop = self.generation.loop
        reads = (*loop.running, "", *loop.next_up)
        if not self.reorder_loss or reads == self._reads_known:
            return
        self._reads_known, before = reads, list[tuple[Segment, ...]]()
        for name in loop.next_up:
            # Speculative reads keep their order.
            if (ask := self._asks.get(name)) is not None:
                before.append(tuple(self.ordered(ask, (*loop.being_read(name), *before))))
                self.generation.replace(name, before[-1])

    def _ordered_ahead(self, ask: Ask, name: str) -> list[Segment]:
        """Orders a speculative prompt along what is being read or cached, whichever shares more; as in under_way.py."""
        ahead, keeper = self.generation.loop.read_so_far(name), self.generation.keeper
        assert keeper is not None
        peek = keeper.peek
        orders = self.ordered(ask), self.ordered(ask, ahead.along(keeper.trail()).being_read)
        return max(orders, key=lambda segments: max(peek(segments), ahead.shared_tokens(segments)))

    def ordered(self, ask: Ask, read_before: tuple[tuple[Segment, ...], ...] = ()) -> list[Segment]:
        """Returns the prompt as the application composes it."""
        order = self._order(ask, read_before) if self.reorder_loss else range(len(ask.passages))
        return [*ask.before, *(ask.passages[place] for place in order), ask.question]

    def _order(self, ask: Ask, read_before: tuple[tuple[Segment, ...], ...]) -> Sequence[int]:
        keeper = self.generation.keeper
        assert keeper is not None

        def follow(trail: Trail, place: int, _: int) -> Trail | None:
            return whole(trail.then(ask.passages[place]))

        with self.decisions.noted():
            start = after(ReadingTrail(keeper.trail(), read_before), ask.before)
            lengths = [len(passage.tokens) for passage in ask.passages]
            uses = [self._uses[passage] for passage in ask.passages]
            return along_kept(ask.scores, lengths, start, follow, self.reorder_loss, uses)

    def _timed(self, find: Callable[[Sequence[Segment]], Found]) -> Callable[[Sequence[Segment]], Found]:
        def timed(segments: Sequence[Segment]) -> Found:
            with self.decisions.noted():
                return find(segments)

        return timed

    def _name(self) -> str:
        self.num_asked += 1
        return f"question {self.num_asked}"


@dataclass
class Server:
    server: LlamaServer

    def ask(self, ask: Ask) -> Outcome:
        prompt = tokens_of(ask.segments)
        streamed = self.server.complete(prompt, ANSWER_TOKENS)
        return Outcome(streamed.first_token_seconds, len(prompt) - streamed.cached_tokens, streamed.tokens)

    def questions_per_second(self, asks: Sequence[Ask]) -> float:
        begun = time.perf_counter()
        self.server.complete_all([tokens_of(ask.segments) for ask in asks], [ANSWER_TOKENS] * len(asks))
        return len(asks) / (time.perf_counter() - begun)

    def as_they_come(self, asks: Sequence[Ask], arrivals: Sequence[float]) -> list[float]:
        begun = time.perf_counter()

        def answer(ask: Ask, arrival: float) -> float:
            time.sleep(max(0.0, begun + arrival - time.perf_counter()))
            streamed = self.server.complete(tokens_of(ask.segments), ANSWER_TOKENS)
            return streamed.token_times[0] - begun - arrival

        # The server has a queue of its own.
        with ThreadPoolExecutor(len(asks)) as pool:
            return list(pool.map(answer, asks, arrivals))


@dataclass
class Python:
    llama: LlamaProcess

    def ask(self, ask: Ask) -> Outcome:
        return Outcome(self.llama.complete(tokens_of(ask.segments), ANSWER_TOKENS).token_seconds[0])

    def questions_per_second(self, asks: Sequence[Ask]) -> float:
        begun = time.perf_counter()
        for ask in asks:
            self.ask(ask)
        return len(asks) / (time.perf_counter() - begun)
