"""From question, evidence and conversation to a prompt that fits the context.

Instructions come first, then the turns that are kept, then the passages, each numbered, then the question: whatever
two prompts share, they begin with. Passages that stand in the turns are named by their numbers; the others go on from
there, in the order they are read in. What is put to the model alone has instructions of its own, and no passages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from itertools import chain
from typing import Any

import resources
from engine.core import Passage
from engine.errors import PromptTooLong
from engine.generation.chat_template import Message, PromptPart
from engine.generation.conversation import (
    Turn,
    as_they_stand,
    asking,
    asking_alone,
    first_kept,
    next_number,
    number_above,
)
from engine.generation.evidence import EvidencePassage
from engine.generation.ordering import Order, along_kept, follow_text, spread
from engine.generation.segment import Segment
from engine.generation.speaker import Speaker
from engine.generation.trail import Trail, after, whole

# A passage cut shorter than this says nothing.
MIN_PASSAGE_TOKENS = 24
# Earlier turns get at most this share of the context, and never so much that the evidence gets less than its own.
HISTORY_SHARE = 0.5
EVIDENCE_SHARE = 0.25
# Where there is no evidence, they get more.
HISTORY_SHARE_ALONE = 0.75
# And what the user wants of every answer, with our own words, at most this share.
WISHES_SHARE = 1 / 3
# Of a prompt that somebody else has made.
RAW_SEGMENT_TOKENS = 128
# A text has about four of them a token; indented code has more.
_MANY_CHARACTERS_A_TOKEN = 16
# Characters, of languages that are written with spaces.
_LONGEST_WORD = 40
# Our own words, the fullest first.
_FROM_FILES = ("prompts/answer.txt", "prompts/answer_short.txt")
_ALONE = ("prompts/chat.txt",)


@dataclass(frozen=True, slots=True)
class Reordering:
    """Passages may be read in another order than they were found, along what is kept: `trail` is where prompts begin.

    `max_loss` is how much of the order's worth that may cost, and `uses` how often a passage has been read for other
    questions (see ordering.py).
    """

    trail: Trail
    max_loss: float
    uses: Callable[[EvidencePassage], int] = lambda passage: 0


@dataclass(frozen=True, slots=True)
class Begun:
    """What there is of an answer that goes on: its `turn`, the pieces of its text, and the tokens of the last of them.

    `stays`: later prompts will begin with these tokens, and with what comes behind them.
    """

    turn: Turn
    texts: tuple[str, ...]
    tokens: tuple[int, ...]
    stays: bool


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads.

    `passages` are those of the evidence that fitted, as they are read, numbered from `first_number` on; the n-th of
    them is number `order[n]` of the evidence. `above` tells the places in the evidence of those that stand in earlier
    turns, by their numbers (of several that stand there as one, the best), and `places_above` all of these places;
    `standing` is all that stands there, with its numbers. `quotable` are the tokens of all passages, newest first: what
    the answer is likely to quote. `messages` are what the segments were made of. `asked_on` is the day that the
    question names, None where it names none. The last segment is what was `begun` of the answer, if anything was. So
    many of the oldest turns as `turns_left_out` found no room.
    """

    segments: tuple[Segment, ...]
    passages: tuple[EvidencePassage, ...]
    order: Order
    num_tokens: int
    quotable: tuple[int, ...] = ()
    messages: tuple[Message, ...] = ()
    asked_on: date | None = None
    first_number: int = 1
    above: Mapping[int, int] = field(default_factory=dict)
    places_above: frozenset[int] = frozenset()
    standing: tuple[tuple[int, EvidencePassage], ...] = ()
    begun: Begun | None = None
    turns_left_out: int = 0

    @property
    def also(self) -> tuple[int, ...]:
        """The numbers of what stands in earlier turns, as they are told."""
        return tuple(sorted(self.above))

    @property
    def numbers(self) -> Mapping[int, int]:
        """The places in the evidence of all that is read for this question, by the numbers that the model knows."""
        return {**self.above, **dict(enumerate(self.order, self.first_number))}

    @property
    def places_read(self) -> frozenset[int]:
        """The places in the evidence of all that the model has before it."""
        return self.places_above.union(self.order)

    @property
    def documents(self) -> frozenset[int]:
        """All whose text it holds, that of earlier turns as well."""
        return frozenset().union(*(segment.documents for segment in self.segments))


def answer_reserve(max_tokens: int, context_tokens: int) -> int:
    """Tokens kept free for the answer: what was asked for, but at most a quarter of a small context."""
    return max(1, min(max_tokens, context_tokens // 4))


def compose(
    question: str,
    passages: Sequence[Passage],
    history: Sequence[Turn],
    speaker: Speaker,
    reserve_tokens: int,
    reordering: Reordering | None = None,
    today: date | None = None,
    wishes: str = "",
    *,
    searches: bool = True,
    is_verbatim: bool = False,
) -> Prompt:
    """The longest prompt that fits: instructions, newest turns, passages best first (the last one cut), the question.

    Of a document that is read through, passages from all of it. Of all, those that do not stand in the turns. `wishes`
    are what the user wants of every answer; they end the instructions. Unless it `searches`, the question is for the
    model alone, and has no passages; one that `is_verbatim` has no day and no instructions of ours either.

    Raises:
        PromptTooLong: Even the bare question does not fit, or not with instructions that are to be as they are.
    """
    budget = speaker.context_tokens - reserve_tokens
    asked_on = today if speaker.tells_day and not is_verbatim else None
    bare = asking(question, (), asked_on) if searches else asking_alone(question, asked_on)
    before, turns = opening(bare, history, speaker, budget, wishes, searches=searches, is_verbatim=is_verbatim)
    evidence = [EvidencePassage.of(passage) for passage in passages]
    numbers = [number_above(passage, turns) for passage in evidence]
    first_number = next_number(history)
    # Of several that stand there as one, the best is told.
    above = {number: place for place, number in reversed(list(enumerate(numbers))) if number is not None}

    def ask(read: Sequence[EvidencePassage]) -> Message:
        return asking(question, read, asked_on, first_number, sorted(above)) if searches else bare

    places = [place for place, number in enumerate(numbers) if number is None]
    room = budget - _count([*before, ask(())], speaker)
    if follow_text(passages):
        costs = [len(speaker.tokens(evidence[place].block(first_number + place))) for place in places]
        places = [places[one] for one in spread(costs, room)]
    fitting = fitting_passages([evidence[place] for place in places], room, speaker, first_number)
    read_at = dict(zip(places, fitting, strict=False))

    def prompt_of(order: Order) -> Prompt:
        """With what fits in this order."""
        read = tuple(map(read_at.__getitem__, order))
        return as_read(
            (*before, ask(read)),
            speaker,
            passages=read,
            order=order,
            turns_left_out=len(history) - len(turns),
            asked_on=asked_on,
            first_number=first_number,
            above=above,
            places_above=frozenset(place for place, number in enumerate(numbers) if number is not None),
            standing=tuple(one for turn in turns for one in turn.numbered),
        )

    prompt = prompt_of(tuple(read_at))
    order = order_along(prompt, passages, speaker, reordering) if reordering is not None else prompt.order
    if order == prompt.order:
        return prompt
    other = prompt_of(order)
    # Another number may take a token more.
    return other if other.num_tokens <= budget else prompt


def opening(
    question: Message,
    history: Sequence[Turn],
    speaker: Speaker,
    budget: int,
    wishes: str,
    *,
    searches: bool = True,
    is_verbatim: bool = False,
) -> tuple[list[Message], tuple[Turn, ...]]:
    """What comes before a question and its evidence, instructions and earlier turns; and these turns.

    Unless it `searches`, there is no evidence; where it `is_verbatim`, `wishes` are all the instructions.

    Raises:
        PromptTooLong: Even the bare question is longer than `budget`, or with instructions that are not to be cut.
    """
    if is_verbatim:
        before = _as_given(wishes, question, speaker, budget)
    else:
        before = _instructions(_FROM_FILES if searches else _ALONE, wishes, question, speaker, budget)
    turns = _turns_kept(before, history, question, speaker, budget, searches=searches, is_verbatim=is_verbatim)
    return [*before, *_messages(turns, speaker)], turns


def as_read(messages: tuple[Message, ...], speaker: Speaker, behind: Sequence[PromptPart] = (), **told: Any) -> Prompt:
    """The prompt as this model reads the messages, and what is `behind` them; `told` is what they were made of."""
    segments = speaker.segments((*speaker.render(messages), *behind))
    read = [segment.tokens for segment in segments if segment.kind == "passage"]
    return Prompt(
        segments=segments,
        num_tokens=sum(len(segment.tokens) for segment in segments),
        quotable=tuple(chain.from_iterable(reversed(read))),
        messages=messages,
        **told,
    )


def as_it_stands(text: str, speaker: Speaker, reserve_tokens: int) -> Prompt:
    """What somebody else has made, marks of the model and all: nothing of ours stands before it or behind.

    Raises:
        PromptTooLong: It does not fit.
    """
    room = speaker.context_tokens - reserve_tokens
    # Megabytes take seconds to become tokens, in which no answer goes on; mostly their beginning is too long already.
    begun = text[: room * _MANY_CHARACTERS_A_TOKEN]
    tokens = speaker.tokens_as_they_stand(begun)
    if len(begun) < len(text) and len(tokens) <= room:
        tokens = speaker.tokens_as_they_stand(text)
    if len(tokens) > room:
        raise _too_long("prompt", speaker)
    # What begins the next one as well, and is kept, is found again by whole segments.
    starts = range(0, len(tokens), RAW_SEGMENT_TOKENS)
    segments = tuple(Segment(tokens[start : start + RAW_SEGMENT_TOKENS]) for start in starts)
    return Prompt(segments, passages=(), order=(), num_tokens=len(tokens))


def order_along(prompt: Prompt, evidence: Sequence[Passage], speaker: Speaker, reordering: Reordering) -> Order:
    """The `order` in which the passages of this prompt, which were made of that evidence, had better be read."""
    if len(prompt.order) < 2 or follow_text(evidence):
        return prompt.order
    places = [place for place, segment in enumerate(prompt.segments) if segment.kind == "passage"]
    first = places[-len(prompt.order)]
    start = after(reordering.trail, prompt.segments[:first])
    best_first = sorted(range(len(prompt.order)), key=prompt.order.__getitem__)

    @cache
    def block(place: int, number: int) -> Segment:
        return speaker.segment(prompt.passages[best_first[place]].block(prompt.first_number - 1 + number))

    def follow(trail: Trail, place: int, number: int) -> Trail | None:
        return whole(trail.then(block(place, number)))

    lengths = [len(prompt.segments[first + place].tokens) for place in best_first]
    uses = [reordering.uses(prompt.passages[place]) for place in best_first]
    scores = [evidence[prompt.order[place]].score for place in best_first]
    order = along_kept(scores, lengths, start, follow, reordering.max_loss, uses)
    return tuple(prompt.order[best_first[place]] for place in order)


def _instructions(ours: Sequence[str], wishes: str, question: Message, speaker: Speaker, budget: int) -> list[Message]:
    """The fullest instructions that leave most of the context to question and passages; wishes rather than words.

    Of wishes that are too long for this model their beginning, which is the same for every question.
    """
    bare = _counted("question", [question], speaker, budget)

    def message(wanted: str, words: str) -> Message:
        return _instructing(f"{resources.text(words).strip()}\n\n{wanted}".strip())

    def fits(message: Message, most: int) -> bool:
        return _count([message, question], speaker) - bare <= most

    if wishes:
        most = min(int(budget * WISHES_SHARE), (budget - bare) // 2)
        for words in ours:
            if fits(message(wishes, words), most):
                return [message(wishes, words)]
        length = bisect_left(range(len(wishes)), True, key=lambda end: not fits(message(wishes[:end], ours[-1]), most))
        if begun := _whole_words(wishes[: max(0, length - 1)]):
            return [message(begun, ours[-1])]
    for words in ours:
        if fits(message("", words), (budget - bare) // 4):
            return [message("", words)]
    return []


def _as_given(wishes: str, question: Message, speaker: Speaker, budget: int) -> list[Message]:
    """Instructions that somebody else answers for: whole, or not at all."""
    before = [_instructing(wishes)] if wishes else []
    _counted("question with its instructions" if before else "question", [*before, question], speaker, budget)
    return before


def _instructing(text: str) -> Message:
    return Message("system", (PromptPart(text, kind="instructions"),))


def _counted(what: str, messages: Sequence[Message], speaker: Speaker, budget: int) -> int:
    """Their tokens. Raises PromptTooLong where that are more than `budget`."""
    num_tokens = _count(messages, speaker)
    if num_tokens > budget:
        raise _too_long(what, speaker)
    return num_tokens


def _too_long(what: str, speaker: Speaker) -> PromptTooLong:
    return PromptTooLong(
        f"The {what} is too long for this model, which reads {speaker.context_tokens:,} tokens at a time.",
        "Shorten it or choose a model with a larger context.",
    )


def _turns_kept(
    before: Sequence[Message],
    history: Sequence[Turn],
    question: Message,
    speaker: Speaker,
    budget: int,
    *,
    searches: bool,
    is_verbatim: bool,
) -> tuple[Turn, ...]:
    """The newest turns, cut in large steps (see `first_kept`); fewer where the question itself is long.

    Of what others answer for, all of it where it fits, and the newest turn at least.
    """

    def is_too_long(turns: Sequence[Turn], most: int) -> bool:
        return _count([*before, *_messages(turns, speaker), question], speaker) > most

    if is_verbatim and not is_too_long(history, budget):
        return tuple(history)
    # Where nothing is cited, there is nothing to take away.
    bare_turns = history if is_verbatim else [turn.bare() for turn in history]
    lengths, bare_lengths = (
        [speaker.added(_read_by(speaker, turn)) for turn in turns] for turns in (history, bare_turns)
    )
    bare = _count([*before, question], speaker)
    for_all_but_evidence = budget - int((budget - bare) * EVIDENCE_SHARE) if searches else budget
    history_budget = int(budget * (HISTORY_SHARE if searches else HISTORY_SHARE_ALONE))
    while True:
        first, first_whole = first_kept(lengths, bare_lengths, history_budget)
        turns = tuple(as_they_stand((*bare_turns[first:first_whole], *history[first_whole:])))
        if not turns and is_verbatim and not is_too_long(history[-1:], budget):
            return tuple(history[-1:])
        if not turns or not is_too_long(turns, for_all_but_evidence):
            return turns
        history_budget //= 2


def _messages(turns: Sequence[Turn], speaker: Speaker) -> Iterator[Message]:
    return chain.from_iterable(_read_by(speaker, turn) for turn in turns)


def _read_by(speaker: Speaker, turn: Turn) -> tuple[Message, ...]:
    return turn.messages(is_own=speaker.knows(turn.all_tokens, turn.signature))


def fitting_passages(
    evidence: Sequence[EvidencePassage], budget: int, speaker: Speaker, first_number: int = 1
) -> tuple[EvidencePassage, ...]:
    """Best first until the room is used up; the one that does not fit whole is cut, the rest is left out."""
    fitting: list[EvidencePassage] = []
    for number, passage in enumerate(evidence, start=first_number):
        cost = len(speaker.tokens(passage.block(number)))
        if cost <= budget:
            fitting.append(passage)
            budget -= cost
            continue
        cut = _cut(passage, number, budget, speaker)
        return (*fitting, cut) if cut else tuple(fitting)
    return tuple(fitting)


def _cut(passage: EvidencePassage, number: int, budget: int, speaker: Speaker) -> EvidencePassage | None:
    """The beginning of a passage that fits into `budget` tokens, ending at a word; None where nothing useful fits."""
    text = passage.text
    while text:
        cut = replace(passage, text=text)
        cost = len(speaker.tokens(cut.block(number)))
        if cost <= budget:
            return cut
        if budget < MIN_PASSAGE_TOKENS:
            return None
        length = min(len(text) - 1, int(len(text) * budget / cost))
        text = _whole_words(text[:length])
    return None


def _whole_words(text: str) -> str:
    """Without a word that was cut; of a script that knows no spaces as it is."""
    end = max(text.rfind(" "), text.rfind("\n"))
    return text[:end] if end >= max(1, len(text) - _LONGEST_WORD) else text


def _count(messages: Sequence[Message], speaker: Speaker) -> int:
    """With the beginning-of-text that a prompt may get."""
    return speaker.count(speaker.render(messages)) + 1
