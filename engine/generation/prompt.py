"""Makes a prompt that fits the context from a question, evidence and conversation.

Instructions come first, then the turns that are kept, then the passages, each numbered, then the question, so that
prompts share their beginnings. Passages that are part of earlier turns are referred to by their numbers; the others are
numbered from there on, in the order in which they are read. A question to the model alone has its own instructions, and
no passages.
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

# A passage that is cut shorter than this is useless.
MIN_PASSAGE_TOKENS = 24
# Earlier turns get at most this share of the context, and never so much that the evidence gets less than its share.
HISTORY_SHARE = 0.5
EVIDENCE_SHARE = 0.25
# Without evidence, turns get more.
HISTORY_SHARE_ALONE = 0.75
# The user's instructions for every answer get at most this share, together with our own.
WISHES_SHARE = 1 / 3
# The segment length of a raw prompt.
RAW_SEGMENT_TOKENS = 128
# Text has about four characters per token; indented code has more.
_MANY_CHARACTERS_A_TOKEN = 16
# In characters, for languages that are written with spaces.
_LONGEST_WORD = 40
# Our own instructions, the longest first.
_FROM_FILES = ("prompts/answer.txt", "prompts/answer_short.txt")
_ALONE = ("prompts/chat.txt",)


@dataclass(frozen=True, slots=True)
class Reordering:
    """Lets passages be read in another order than they were found, along kept KV; `trail` is where prompts begin.

    `max_loss` is how much worse the order may become for that, and `uses` how often a passage has been read for other
    questions (see ordering.py).
    """

    trail: Trail
    max_loss: float
    uses: Callable[[EvidencePassage], int] = lambda passage: 0


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """How a question is put to the model.

    `wishes` are the user's instructions for every answer, placed after ours. Unless it `searches`, the question is for
    the model alone and has no passages. If it `is_verbatim`, no day is named, and `wishes` are the only instructions.
    `today` is named if the model's template names a day.
    """

    wishes: str = ""
    searches: bool = True
    is_verbatim: bool = False
    today: date | None = None


PLAIN = PromptStyle()


@dataclass(frozen=True, slots=True)
class Begun:
    """The existing part of a continued answer: its `turn`, its pieces of text, and the tokens of the last piece.

    `stays`: later prompts will begin with these tokens and those that follow them.
    """

    turn: Turn
    texts: tuple[str, ...]
    tokens: tuple[int, ...]
    stays: bool


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads.

    `passages` are those of the evidence that fit, in the order in which they are read, numbered from `first_number` on;
    the n-th of them is number `order[n]` of the evidence. `above` maps the numbers of passages in earlier turns to
    their places in the evidence (the best one, if several are one passage there), and `places_above` has all of these
    places; `standing` are all passages there with their numbers. `quotable` are the tokens of all passages, newest
    first, because the answer is likely to quote them. The segments were made from `messages`. `asked_on` is the day
    that the question names, or None. If an answer is continued, its existing part `begun` is the last segment. There
    was no room for the oldest `turns_left_out`.
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
        """The numbers of passages in earlier turns that belong to this question, as the model reads them."""
        return tuple(sorted(self.above))

    @property
    def numbers(self) -> Mapping[int, int]:
        """The places in the evidence of all passages for this question, by the numbers that the model knows."""
        return {**self.above, **dict(enumerate(self.order, self.first_number))}

    @property
    def places_read(self) -> frozenset[int]:
        """The places in the evidence of all passages in the prompt."""
        return self.places_above.union(self.order)

    @property
    def documents(self) -> frozenset[int]:
        """All documents with text in the prompt, including earlier turns."""
        return frozenset().union(*(segment.documents for segment in self.segments))


def answer_reserve(max_tokens: int, context_tokens: int) -> int:
    """Returns the tokens to keep free for the answer: as requested, but at most a quarter of the context."""
    return max(1, min(max_tokens, context_tokens // 4))


def compose(
    question: str,
    passages: Sequence[Passage],
    history: Sequence[Turn],
    speaker: Speaker,
    reserve_tokens: int,
    reordering: Reordering | None = None,
    style: PromptStyle = PLAIN,
) -> Prompt:
    """Composes the longest prompt that fits: instructions, newest turns, passages (the last one cut), the question.

    Passages that are part of the turns are not repeated. If a document is read through, the passages are spread over
    all of it.

    Raises:
        PromptTooLong: Even the bare question does not fit, or not together with verbatim instructions.
    """
    budget = speaker.context_tokens - reserve_tokens
    draft = _draft(question, passages, history, speaker, budget, style)
    read_at = _fitting_evidence(draft, budget, is_in_text_order=follow_text(passages))
    prompt = draft.prompt(read_at, tuple(read_at))
    order = order_along(prompt, passages, speaker, reordering) if reordering is not None else prompt.order
    if order == prompt.order:
        return prompt
    reordered = draft.prompt(read_at, order)
    # Other numbers may take more tokens.
    return reordered if reordered.num_tokens <= budget else prompt


@dataclass(frozen=True, slots=True)
class _Draft:
    """A prompt in which everything but the passages is decided.

    `before` are the messages before the question: the instructions and `turns`; there was no room for `turns_left_out`.
    `numbers` holds, for each passage of the `evidence`, its number in the turns, or None if it is not part of them;
    such passages are numbered from `first_number` on.
    """

    question: str
    speaker: Speaker
    searches: bool
    asked_on: date | None
    before: tuple[Message, ...]
    turns: tuple[Turn, ...]
    turns_left_out: int
    first_number: int
    evidence: tuple[EvidencePassage, ...]
    numbers: tuple[int | None, ...]

    @property
    def above(self) -> dict[int, int]:
        """The places in the evidence of passages that are part of the turns, by their numbers there."""
        # If several are one passage there, the best one wins.
        return {number: place for place, number in reversed(list(enumerate(self.numbers))) if number is not None}

    @property
    def new_places(self) -> list[int]:
        """The places in the evidence of passages that are not part of the turns, best first."""
        return [place for place, number in enumerate(self.numbers) if number is None]

    def asking(self, read: Sequence[EvidencePassage]) -> Message:
        """Returns the message with these passages and the question."""
        if not self.searches:
            return asking_alone(self.question, self.asked_on)
        return asking(self.question, read, self.asked_on, self.first_number, sorted(self.above))

    def prompt(self, read_at: Mapping[int, EvidencePassage], order: Order) -> Prompt:
        """Returns the prompt with passages in this order; `read_at` has them, cut to fit, by places in the evidence."""
        read = tuple(map(read_at.__getitem__, order))
        return as_read(
            (*self.before, self.asking(read)),
            self.speaker,
            passages=read,
            order=order,
            turns_left_out=self.turns_left_out,
            asked_on=self.asked_on,
            first_number=self.first_number,
            above=self.above,
            places_above=frozenset(place for place, number in enumerate(self.numbers) if number is not None),
            standing=tuple(one for turn in self.turns for one in turn.numbered),
        )


def _draft(
    question: str,
    passages: Sequence[Passage],
    history: Sequence[Turn],
    speaker: Speaker,
    budget: int,
    style: PromptStyle,
) -> _Draft:
    asked_on = style.today if speaker.tells_day and not style.is_verbatim else None
    bare = asking(question, (), asked_on) if style.searches else asking_alone(question, asked_on)
    before, turns = opening(bare, history, speaker, budget, style)
    evidence = tuple(EvidencePassage.of(passage) for passage in passages)
    return _Draft(
        question,
        speaker,
        style.searches,
        asked_on,
        tuple(before),
        turns,
        turns_left_out=len(history) - len(turns),
        first_number=next_number(history),
        evidence=evidence,
        numbers=tuple(number_above(passage, turns) for passage in evidence),
    )


def _fitting_evidence(draft: _Draft, budget: int, *, is_in_text_order: bool) -> dict[int, EvidencePassage]:
    """Returns the passages that fit, the last one cut, by their places in the evidence; best first.

    Passages in the order of a document's text are thinned out evenly, so that they cover all of it.
    """
    speaker, places = draft.speaker, draft.new_places
    room = budget - _count([*draft.before, draft.asking(())], speaker)
    if is_in_text_order:
        costs = [len(speaker.tokens(draft.evidence[place].block(draft.first_number + place))) for place in places]
        places = [places[one] for one in spread(costs, room)]
    fitting = fitting_passages([draft.evidence[place] for place in places], room, speaker, draft.first_number)
    return dict(zip(places, fitting, strict=False))


def opening(
    question: Message,
    history: Sequence[Turn],
    speaker: Speaker,
    budget: int,
    style: PromptStyle,
) -> tuple[list[Message], tuple[Turn, ...]]:
    """Returns the messages before a question, that is, instructions and earlier turns, and the turns among them.

    Raises:
        PromptTooLong: The bare question is longer than `budget`, alone or with instructions that must not be cut.
    """
    if style.is_verbatim:
        before = _as_given(style.wishes, question, speaker, budget)
    else:
        before = _instructions(_FROM_FILES if style.searches else _ALONE, style.wishes, question, speaker, budget)
    turns = _turns_kept(before, history, question, speaker, budget, style)
    return [*before, *_messages(turns, speaker)], turns


def as_read(messages: tuple[Message, ...], speaker: Speaker, behind: Sequence[PromptPart] = (), **told: Any) -> Prompt:
    """Returns the prompt of these messages, followed by the parts `behind`; `told` are the prompt's other fields."""
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
    """Returns the prompt for a raw text, including the model's markup: nothing is added before or after it.

    Raises:
        PromptTooLong: It does not fit.
    """
    room = speaker.context_tokens - reserve_tokens
    # Tokenising megabytes takes seconds in which all answers pause, and usually the beginning alone is too long.
    begun = text[: room * _MANY_CHARACTERS_A_TOKEN]
    tokens = speaker.tokens_as_they_stand(begun)
    if len(begun) < len(text) and len(tokens) <= room:
        tokens = speaker.tokens_as_they_stand(text)
    if len(tokens) > room:
        raise _too_long("prompt", speaker)
    # A beginning that the next prompt shares is found again in units of segments.
    starts = range(0, len(tokens), RAW_SEGMENT_TOKENS)
    segments = tuple(Segment(tokens[start : start + RAW_SEGMENT_TOKENS]) for start in starts)
    return Prompt(segments, passages=(), order=(), num_tokens=len(tokens))


def order_along(prompt: Prompt, evidence: Sequence[Passage], speaker: Speaker, reordering: Reordering) -> Order:
    """Returns the `order` in which the passages of this prompt, which come from `evidence`, should be read."""
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
    """Returns the longest instructions that leave most of the context for the rest; wishes have priority over our own.

    Wishes that are too long for this model are cut at the end, in the same way for every question.
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
    """Returns the caller's own instructions uncut. Raises PromptTooLong if they do not fit."""
    before = [_instructing(wishes)] if wishes else []
    _counted("question with its instructions" if before else "question", [*before, question], speaker, budget)
    return before


def _instructing(text: str) -> Message:
    return Message("system", (PromptPart(text, kind="instructions"),))


def _counted(what: str, messages: Sequence[Message], speaker: Speaker, budget: int) -> int:
    """Returns the number of tokens. Raises PromptTooLong if it exceeds `budget`."""
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
    style: PromptStyle,
) -> tuple[Turn, ...]:
    """Returns the newest turns, cut in large steps (see `first_kept`); fewer if the question itself is long.

    A verbatim conversation is kept completely if it fits; otherwise at least its newest turn is kept.
    """

    def is_too_long(turns: Sequence[Turn], most: int) -> bool:
        return _count([*before, *_messages(turns, speaker), question], speaker) > most

    if style.is_verbatim and not is_too_long(history, budget):
        return tuple(history)
    # Verbatim turns have no passages that could be removed.
    bare_turns = history if style.is_verbatim else [turn.bare() for turn in history]
    lengths, bare_lengths = (
        [speaker.added(_read_by(speaker, turn)) for turn in turns] for turns in (history, bare_turns)
    )
    bare = _count([*before, question], speaker)
    for_all_but_evidence = budget - int((budget - bare) * EVIDENCE_SHARE) if style.searches else budget
    history_budget = int(budget * (HISTORY_SHARE if style.searches else HISTORY_SHARE_ALONE))
    while True:
        first, first_whole = first_kept(lengths, bare_lengths, history_budget)
        turns = tuple(as_they_stand((*bare_turns[first:first_whole], *history[first_whole:])))
        if not turns and style.is_verbatim and not is_too_long(history[-1:], budget):
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
    """Returns the best passages that fit; the first one that does not fit whole is cut, the rest is left out."""
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
    """Returns the beginning of a passage that fits into `budget`, cut after a word; None if nothing useful fits."""
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
    """Returns the text without a cut word at its end; unchanged in a script without spaces."""
    end = max(text.rfind(" "), text.rfind("\n"))
    return text[:end] if end >= max(1, len(text) - _LONGEST_WORD) else text


def _count(messages: Sequence[Message], speaker: Speaker) -> int:
    """Returns the number of tokens, including a beginning-of-text token that may be added."""
    return speaker.count(speaker.render(messages)) + 1
