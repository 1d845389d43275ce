"""Conversations only grow: how earlier turns appear in the next prompt, and how many of them it keeps.

Evidence stays in the turn that brought it (other applications move the retrieved text each turn and read everything
again). A passage that a later question finds again is referred to by number, not read a second time: numbers go on
through all turns. When history must be shortened, much of it is dropped at once, so that what remains begins the next
prompts too; and the passages of old turns are dropped before their words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain

from engine.core import Passage
from engine.generation.chat_template import Message, PromptPart
from engine.generation.citations import without_markers
from engine.generation.evidence import EvidencePassage

NOTHING_FOUND = "No passage in the user's files fits this question.\n\n"
FOUND_ABOVE = "Passages above that fit this question, too: {}.\n"
# The share of its budget that a history keeps once it has outgrown it: half, so that many turns go by until it is cut
# again. If the words alone are more than that, while passages are dropped with each turn, half of it once more.
KEPT_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Continuation:
    """What came while an answer was being written: more passages, the words they came with, and how it went on."""

    passages: tuple[EvidencePassage, ...]
    words: str
    answer: str
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier question with its evidence, in the order it was read in, and the answer as the model wrote it.

    `tokens` are the answer's, of the model called `signature`; without them its text is tokenised. Where more passages
    came while it was being written, the rest of it is in `continuations`. `asked_on` is the day that the model was told
    with the question, None if it was told none. Its passages are numbered from `first_number` on; `also` are the
    numbers of earlier turns' passages that were found for it, and `num_left` of its own have left the library. A turn
    that `is_bare` has dropped its passages. Unless it `searches`, it was asked without the user's files.
    """

    question: str
    passages: tuple[EvidencePassage, ...]
    answer: str
    tokens: tuple[int, ...] = ()
    signature: str = ""
    continuations: tuple[Continuation, ...] = ()
    asked_on: date | None = None
    first_number: int = 1
    also: tuple[int, ...] = ()
    num_left: int = 0
    is_bare: bool = False
    searches: bool = True

    @property
    def numbered(self) -> tuple[tuple[int, EvidencePassage], ...]:
        """All its passages, each with its number."""
        passages = chain(self.passages, *(more.passages for more in self.continuations))
        return tuple((passage.number or place, passage) for place, passage in enumerate(passages, self.first_number))

    @property
    def next_number(self) -> int:
        """The number of the first passage after it: passages that have left keep their numbers."""
        return self.first_number + len(self.numbered) + self.num_left

    @property
    def all_tokens(self) -> tuple[int, ...]:
        """The tokens of the answer and of all its continuations."""
        return (*self.tokens, *chain.from_iterable(more.tokens for more in self.continuations))

    @property
    def answers(self) -> tuple[str, ...]:
        """The pieces of its answer."""
        return (self.answer, *(more.answer for more in self.continuations))

    def with_end(self, answer: str, tokens: tuple[int, ...] = (), signature: str = "") -> Turn:
        """Returns the turn with the last piece of its answer as the model called `signature` wrote it."""
        if not self.continuations:
            return replace(self, answer=answer, tokens=tokens, signature=signature)
        last = replace(self.continuations[-1], answer=answer, tokens=tokens)
        return replace(self, continuations=(*self.continuations[:-1], last), signature=signature)

    def in_words(self) -> Turn:
        """Returns the turn without tokens, for a model that has not written it."""
        continuations = tuple(replace(more, tokens=()) for more in self.continuations)
        return replace(self, tokens=(), signature="", continuations=continuations)

    def in_one_piece(self) -> Turn:
        """Returns the turn as if all of its passages had come with the question."""
        if not self.continuations:
            return self
        passages = tuple(replace(passage, number=number) for number, passage in self.numbered)
        return replace(self.in_words(), passages=passages, answer=" ".join(self.answers), continuations=())

    def messages(self, is_own: bool = False) -> tuple[Message, ...]:
        """Returns the turn's messages in a prompt; with its tokens if the model that reads it wrote it."""
        if not self.searches:
            own = self.tokens if is_own else ()
            return asking_alone(self.question, self.asked_on), answering(self.answer, own)
        if self.is_bare:
            return Message("user", (_question(self.question, self.asked_on),)), answering(self.answer)
        asked = asking(self.question, self.passages, self.asked_on, self.first_number, self.also)
        read = [asked, answering(self.answer, self.tokens if is_own else ())]
        next_number = self.first_number + len(self.passages)
        for more in self.continuations:
            read.append(going_on(more.words, more.passages, next_number))
            read.append(answering(more.answer, more.tokens if is_own else ()))
            next_number += len(more.passages)
        return tuple(read)

    def bare(self) -> Turn:
        """Returns the turn with question and answer alone, without citations."""
        words = without_markers(" ".join(self.answers)).strip()
        return Turn(self.question, (), words, asked_on=self.asked_on, is_bare=True, searches=self.searches)


def asking(
    question: str,
    passages: Sequence[EvidencePassage],
    asked_on: date | None = None,
    first_number: int = 1,
    also: Sequence[int] = (),
) -> Message:
    """Returns a question after its evidence, with the day on which it is asked if the model should know it.

    The passages are numbered from `first_number` on; those of earlier turns that fit it are referred to by number.
    """
    blocks = [passage.block(number) for number, passage in enumerate(passages, start=first_number)]
    nothing = [] if blocks or also else [PromptPart(NOTHING_FOUND)]
    return Message("user", (*blocks, *nothing, _question(question, asked_on, also)))


def asking_alone(words: str, asked_on: date | None = None) -> Message:
    """Returns a message to the model alone, in the user's own words; it need not be a question."""
    return Message("user", (PromptPart(f"{_day(asked_on)}{words}"),))


def _question(question: str, asked_on: date | None, also: Sequence[int] = ()) -> PromptPart:
    above = FOUND_ABOVE.format("".join(f"[{number}]" for number in also)) if also else ""
    return PromptPart(f"{above}{_day(asked_on)}Question: {question}")


def _day(asked_on: date | None) -> str:
    return f"Today is {asked_on.day} {asked_on:%B %Y}.\n" if asked_on is not None else ""


def answering(text: str, tokens: tuple[int, ...] = ()) -> Message:
    """Returns a message with what the model wrote, whose KV is found again without what follows."""
    return Message("assistant", (PromptPart(text, stands_alone=True, tokens=tokens),))


def going_on(words: str, passages: Sequence[EvidencePassage], first_number: int) -> Message:
    """Returns more passages for an answer being written, numbered from `first_number` on, and what to do with them."""
    blocks = [passage.block(number) for number, passage in enumerate(passages, start=first_number)]
    return Message("user", (*blocks, PromptPart(words)))


def first_kept(lengths: Sequence[int], bare: Sequence[int], budget: int) -> tuple[int, int]:
    """Returns which turn of a history is the first that stays, and which is the first that keeps its passages.

    With one turn more, the result is the same until the budget is exceeded; then half of the budget is freed.
    Passages are dropped first, the oldest turns' before others: words are few, and their evidence is found again.

    Args:
        lengths: Of the turns, in tokens.
        bare: The same without their passages.
        budget: For all that stays, in tokens.
    """
    first = first_whole = size = 0
    for end in range(1, len(lengths) + 1):
        size += lengths[end - 1]
        if size <= budget:
            continue
        most = budget * KEPT_SHARE
        while first_whole < end and size > most:
            size -= lengths[first_whole] - bare[first_whole]
            first_whole += 1
        if most < size <= budget:
            most *= KEPT_SHARE
        while first < end and size > (most if first < end - 1 else budget):
            size -= bare[first]
            first += 1
    return first, first_whole


def as_they_stand(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Yields the turns of a prompt, without references to passages that are no longer in it.

    A turn that rested only on such passages keeps its words, since it did find something.
    """
    standing = set[int]()
    for turn in turns:
        also = tuple(number for number in turn.also if number in standing)
        yield replace(turn, also=also) if turn.passages or also or not turn.also else turn.bare()
        standing.update(number for number, _ in turn.numbered)


def next_number(history: Iterable[Turn]) -> int:
    """Returns the number of the first passage of the next turn, which no answer has ever cited."""
    return max((turn.next_number for turn in history), default=1)


def number_above(passage: EvidencePassage, turns: Iterable[Turn]) -> int | None:
    """Returns the number under which these turns hold all of a passage; None if they do not, or others share it.

    Turns of older versions each count from 1.
    """
    numbered = [one for turn in turns for one in turn.numbered]
    num_uses = Counter(number for number, _ in numbered)
    places = (number for number, other in numbered if num_uses[number] == 1 and passage.is_part_of(other))
    return next(places, None)


def recallable(standing: Iterable[tuple[int, EvidencePassage]]) -> dict[int, Passage]:
    """Returns passages of earlier turns that can be shown when an answer cites them, by numbers that are unique."""
    numbered = list(standing)
    num_uses = Counter(number for number, _ in numbered)
    return {number: one.source for number, one in numbered if one.source is not None and num_uses[number] == 1}
