"""Makes a prompt that fits the context from a question, evidence and conversation.

Instructions come first, then the turns that are kept, then the passages, each numbered, then the question: prompts
share their beginnings. Passages that stand in the turns are referred to by their numbers; the others continue from
there, in the order they are read in. A question to the model alone has its own instructions, and no passages.
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

# A passage that is cut shorter than this says nothing.
MIN_PASSAGE_TOKENS = 24
# Earlier turns get at most this share of the context, and never so much that the evidence gets less than its own.
HISTORY_SHARE = 0.5
EVIDENCE_SHARE = 0.25
# Where there is no evidence, they get more.
HISTORY_SHARE_ALONE = 0.75
# The user's wishes for every answer, with our own words, get at most this share.
WISHES_SHARE = 1 / 3
# The segment length of a raw prompt.
RAW_SEGMENT_TOKENS = 128
# A text has about four characters per token; indented code has more.
_MANY_CHARACTERS_A_TOKEN = 16
# In characters, of languages that are written with spaces.
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
class PromptStyle:
    """How a question is put to the model.

    `wishes` are what the user wants of every answer; they end the instructions. Unless it `searches`, the question is
    for the model alone and has no passages. One that `is_verbatim` names no day, and `wishes` are all its instructions.
    `today` is named where the model's template names a day.
    """

    wishes: str = ""
    searches: bool = True
    is_verbatim: bool = False
    today: date | None = None


PLAIN = PromptStyle()


@dataclass(frozen=True, slots=True)
class Begun:
    """What there is of an answer that goes on: its `turn`, the pieces of its text, and the tokens of the last of them.

    `stays`: later prompts will begin with these tokens, and with what comes after them.
    """

    turn: Turn
    texts: tuple[str, ...]
    tokens: tuple[int, ...]
    stays: bool


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads.

    `passages` are those of the evidence that fitted, as they are read, numbered from `first_number` on; the n-th of
    them is number `order[n]` of the evidence. `above` maps the numbers of passages that stand in earlier turns to their
    places in the evidence (where several stand there as one, the best), and `places_above` has all of these places;
    `standing` is all that stands there, with its numbers. `quotable` are the tokens of all passages, newest first: what
    the answer is likely to quote. `messages` are what the segments were made of. `asked_on` is the day that the
    question names, None where it names none. The last segment is what was `begun` of the answer, if anything was. The
    oldest `turns_left_out` found no room.
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
        """The places in the evidence of all that is read for this question, by the numbers that the model knows."""
        return {**self.above, **dict(enumerate(self.order, self.first_number))}

    @property
    def places_read(self) -> frozenset[int]:
        """The places in the evidence of all that the model has before it."""
        return self.places_above.union(self.order)

    @property
    def documents(self) -> frozenset[int]:
        """All documents whose text it holds, including that of earlier turns."""
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
    style: PromptStyle = PLAIN,
) -> Prompt:
    """The longest prompt that fits: instructions, newest turns, passages best first (the last one cut), the question.

    Passages that stand in the turns are not repeated. Of a document that is read through, the passages are spread over
    all of it.

    Raises:
        PromptTooLong: Even the bare question does not fit, or does not fit with verbatim instructions.
    """
    budget = speaker.context_tokens - reserve_tokens
    draft = _draft(question, passages, history, speaker, budget, style)
    read_at = _fitting_evidence(draft, budget, is_in_text_order=follow_text(passages))
    prompt = draft.prompt(read_at, tuple(read_at))
    order = order_along(prompt, passages, speaker, reordering) if reordering is not None else prompt.order
    if order == prompt.order:
        return prompt
    reordered = draft.prompt(read_at, order)
    # Another number may take a token more.
    return reordered if reordered.num_tokens <= budget else prompt


@dataclass(frozen=True, slots=True)
class _Draft:
    """A prompt of which everything is settled but its passages.

    `before` are the messages before the question: the instructions and `turns`, of which `turns_left_out` found no
    room. `numbers` holds, for each passage of the `evidence`, its number in the turns; None where it does not stand
    there. Passages that do not are numbered from `first_number` on.
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
        """The places in the evidence of passages that stand in the turns, by their numbers there."""
        # Of several that stand there as one, the best is named.
        return {number: place for place, number in reversed(list(enumerate(self.numbers))) if number is not None}

    @property
    def new_places(self) -> list[int]:
        """The places in the evidence of passages that do not stand in the turns, best first."""
        return [place for place, number in enumerate(self.numbers) if number is None]

    def asking(self, read: Sequence[EvidencePassage]) -> Message:
        """The question with these passages before it."""
        if not self.searches:
            return asking_alone(self.question, self.asked_on)
        return asking(self.question, read, self.asked_on, self.first_number, sorted(self.above))

    def prompt(self, read_at: Mapping[int, EvidencePassage], order: Order) -> Prompt:
        """The prompt with passages in this order; `read_at` holds them, cut to fit, by their places in the evidence."""
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
    """The passages that fit, the last one cut, by their places in the evidence; best first.

    Of passages that follow the text of a document, some are left out evenly, so that the rest spread over all of it.
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
    """What comes before a question and its evidence: the instructions and earlier turns; and these turns.

    Raises:
        PromptTooLong: Even the bare question is longer than `budget`, or with instructions that are not to be cut.
    """
    if style.is_verbatim:
        before = _as_given(style.wishes, question, speaker, budget)
    else:
        before = _instructions(_FROM_FILES if style.searches else _ALONE, style.wishes, question, speaker, budget)
    turns = _turns_kept(before, history, question, speaker, budget, style)
    return [*before, *_messages(turns, speaker)], turns


def as_read(messages: tuple[Message, ...], speaker: Speaker, behind: Sequence[PromptPart] = (), **told: Any) -> Prompt:
    """The prompt as this model reads the messages, and what is `behind` them; `told` are the prompt's other fields."""
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
    """A raw prompt, including the model's markup: nothing is added before or after it.

    Raises:
        PromptTooLong: It does not fit.
    """
    room = speaker.context_tokens - reserve_tokens
    # Tokenising megabytes takes seconds, in which all answers pause; mostly their beginning is too long already.
    begun = text[: room * _MANY_CHARACTERS_A_TOKEN]
    tokens = speaker.tokens_as_they_stand(begun)
    if len(begun) < len(text) and len(tokens) <= room:
        tokens = speaker.tokens_as_they_stand(text)
    if len(tokens) > room:
        raise _too_long("prompt", speaker)
    # In whole segments, a beginning that the next prompt shares is found again.
    starts = range(0, len(tokens), RAW_SEGMENT_TOKENS)
    segments = tuple(Segment(tokens[start : start + RAW_SEGMENT_TOKENS]) for start in starts)
    return Prompt(segments, passages=(), order=(), num_tokens=len(tokens))


def order_along(prompt: Prompt, evidence: Sequence[Passage], speaker: Speaker, reordering: Reordering) -> Order:
    """The `order` in which the passages of this prompt, which were made of that evidence, should be read."""
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
    """The fullest instructions that leave most of the context to question and passages; wishes before our own words.

    Of wishes that are too long for this model, their beginning, which is the same for every question.
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
    """Instructions that the caller answers for: whole, or an error."""
    before = [_instructing(wishes)] if wishes else []
    _counted("question with its instructions" if before else "question", [*before, question], speaker, budget)
    return before


def _instructing(text: str) -> Message:
    return Message("system", (PromptPart(text, kind="instructions"),))


def _counted(what: str, messages: Sequence[Message], speaker: Speaker, budget: int) -> int:
    """The number of tokens. Raises PromptTooLong where it exceeds `budget`."""
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
    """The newest turns, cut in large steps (see `first_kept`); fewer where the question itself is long.

    Of a verbatim conversation, all of it where it fits, and the newest turn at least.
    """

    def is_too_long(turns: Sequence[Turn], most: int) -> bool:
        return _count([*before, *_messages(turns, speaker), question], speaker) > most

    if style.is_verbatim and not is_too_long(history, budget):
        return tuple(history)
    # Where nothing is cited, there is nothing to take away.
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
    """The text without a word that was cut; unchanged in a script that has no spaces."""
    end = max(text.rfind(" "), text.rfind("\n"))
    return text[:end] if end >= max(1, len(text) - _LONGEST_WORD) else text


def _count(messages: Sequence[Message], speaker: Speaker) -> int:
    """The number of tokens, with the beginning-of-text token that a prompt may get."""
    return speaker.count(speaker.render(messages)) + 1
