"""Continues an unfinished answer: nothing is searched for, and the model writes on from where the answer stopped.

The model reads what preceded the answer, the same passages under the same numbers, and then the answer itself; kept KV
of these is found again. If another model wrote the answer, or its tokens are not known, it is read as text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import count

from engine.core import Passage, Question, Unfinished
from engine.errors import BadRequest, PromptTooLong
from engine.generation.answer_text import AnswerText
from engine.generation.chat_template import Message, PromptPart
from engine.generation.citations import renumbered
from engine.generation.conversation import Turn, asking, asking_alone, next_number, number_above
from engine.generation.evidence import EvidencePassage
from engine.generation.prompt import Begun, Prompt, PromptStyle, as_read, fitting_passages, opening
from engine.generation.speaker import Speaker
from engine.generation.transcript import documents_in_transcript, transcript_of, turns_of_transcript

# All passages are read while this share of the answer's reserve is left; otherwise some are left out.
LEAST_ROOM = 0.5
# Replaces an incomplete character.
_CUT_CHARACTER = "\ufffd"


def going_on_with(
    unfinished: Unfinished,
    question: Question,
    known_documents: Callable[[Collection[int]], Collection[int]],
    speaker: Speaker,
    reserve_tokens: int,
    today: date,
) -> Prompt:
    """Returns the prompt that the answer was written after, followed by the existing part of the answer.

    Passages that have left the library since are not read again; the numbers of the others stay the same.

    Raises:
        PromptTooLong: The answer has become as long as the model can read.
        BadRequest: There is nothing to continue from, or the transcript is not one of ours.
    """
    transcript = question.transcript
    history = turns_of_transcript(transcript, documents_in_transcript(transcript))
    asked_on = today if speaker.tells_day else None
    segments = unfinished.segments or transcript_of(_lost(unfinished, question, history, asked_on))
    documents = documents_in_transcript(segments)
    (*_, whole), (*_, turn) = (turns_of_transcript(segments, ids) for ids in (documents, known_documents(documents)))
    if unfinished.thoughts:
        # Tokens, if they were kept, begin with thoughts.
        whole, turn = whole.in_words(), turn.in_words()
    places = _places(whole, history, unfinished.passages)
    if unsaid := _written_since(unfinished.text, whole, places):
        whole, turn = (one.in_words().with_end(one.answers[-1] + unsaid) for one in (whole, turn))
    history = turns_of_transcript(transcript, known_documents(documents_in_transcript(transcript)))
    is_as_returned = bool(unfinished.segments) and not unsaid
    reading = _Reading(history, places, speaker, question.instructions.strip(), may_be_cut=is_as_returned)
    prompt = reading.prompt(turn, whole, speaker.context_tokens - reserve_tokens)
    if prompt.num_tokens > speaker.context_tokens - reserve_tokens * LEAST_ROOM:
        return reading.shortened(turn.in_one_piece(), whole.in_one_piece(), reserve_tokens)
    return prompt


class _Reading:
    """How a model reads such a turn, after the history of its conversation.

    If it `may_be_cut`, it may end within a character, as the model left it; visible text never does.
    """

    def __init__(
        self,
        history: Sequence[Turn],
        places: Mapping[int, int],
        speaker: Speaker,
        wishes: str,
        *,
        may_be_cut: bool,
    ) -> None:
        self._history, self._places, self._speaker, self._wishes = history, places, speaker, wishes
        self._may_be_cut = may_be_cut

    def prompt(self, turn: Turn, whole: Turn, budget: int) -> Prompt:
        """Returns the prompt with as many turns as `budget` allows; `whole` is the turn with all of its passages."""
        speaker = self._speaker
        if not (is_own := speaker.knows(turn.all_tokens, turn.signature)):
            turn, whole = (self._in_words(one) for one in (turn, whole))
        before, turns = opening(_bare(turn), self._history, speaker, budget, PromptStyle(self._wishes, turn.searches))
        standing = tuple(one for kept in turns for one in kept.numbered)
        numbers = {number for number, _ in standing}
        turn = replace(turn, also=tuple(number for number in turn.also if number in numbers))
        *asked, last = turn.messages(is_own)
        (written,) = last.parts
        if not (tokens := speaker.tokens(written)):
            raise BadRequest("There is nothing of this answer to go on from.", "Ask again.")
        thoughts = speaker.without_thoughts(answers_at_once=is_own)
        return as_read(
            (*before, *asked),
            speaker,
            behind=(*([PromptPart(thoughts, is_markup=True)] if thoughts else []), written),
            passages=turn.passages,
            order=(),
            turns_left_out=len(self._history) - len(turns),
            asked_on=turn.asked_on,
            first_number=turn.first_number,
            above=self._places,
            places_above=frozenset(self._places.values()),
            standing=standing,
            begun=Begun(whole, (*turn.answers[:-1], speaker.text_of(written)), tokens, stays=not thoughts),
        )

    def _in_words(self, turn: Turn) -> Turn:
        words = turn.in_words()
        # The rest of an incomplete character is still to be written, so its replacement must not stay.
        whole = words.answers[-1].removesuffix(_CUT_CHARACTER) if self._may_be_cut else ""
        return words.with_end(whole) if whole else words

    def shortened(self, turn: Turn, whole: Turn, reserve_tokens: int) -> Prompt:
        """Returns the prompt with as many passages, and turns before them, as fit; the answer itself is read whole."""
        speaker = self._speaker
        written = turn.messages(speaker.knows(turn.all_tokens, turn.signature))[-1].parts[0]
        room = speaker.context_tokens - reserve_tokens - len(speaker.tokens(written))
        try:
            bare = self.prompt(replace(turn, passages=()), whole, room)
        except PromptTooLong as error:
            raise PromptTooLong(
                "This answer has become as long as the model can read at a time.",
                "Ask for the rest of it in a new question, or choose a model with a larger context.",
            ) from error
        left = speaker.context_tokens - reserve_tokens - bare.num_tokens
        passages = fitting_passages(turn.passages, left, speaker, turn.first_number)
        return self.prompt(replace(turn, passages=passages), whole, room) if passages else bare


def _bare(turn: Turn) -> Message:
    return asking(turn.question, (), turn.asked_on) if turn.searches else asking_alone(turn.question, turn.asked_on)


def _lost(unfinished: Unfinished, question: Question, history: Sequence[Turn], asked_on: date | None) -> Turn:
    """Reconstructs the turn of an answer without segments, as if its passages had been read as they were found."""
    evidence = [EvidencePassage.of(passage) for passage in unfinished.passages]
    above, first_number = [number_above(passage, history) for passage in evidence], next_number(history)
    numbers = count(first_number)
    # `renumbered` takes places, which are one less than numbers.
    read_as = {place: (number or next(numbers)) - 1 for place, number in enumerate(above, start=1)}
    return Turn(
        question.text,
        tuple(passage for passage, number in zip(evidence, above, strict=True) if number is None),
        renumbered(unfinished.text, read_as),
        asked_on=asked_on,
        first_number=first_number,
        also=tuple(sorted({number for number in above if number is not None})),
        searches=question.searches,
    )


def _places(turn: Turn, history: Sequence[Turn], passages: Sequence[Passage]) -> dict[int, int]:
    """Returns the places of the passages that the user sees, by the numbers that the model knows."""
    places: dict[int, int] = {}
    for place, passage in enumerate(passages):
        shown = EvidencePassage.of(passage)
        # The model's version may have been cut to fit.
        own = (number for number, read in turn.numbered if number not in places and read.is_part_of(shown))
        number = next(own, None) or number_above(shown, history)
        if number is not None:
            places.setdefault(number, place)
    return places


def _written_since(shown: str, turn: Turn, places: Mapping[int, int]) -> str:
    """Returns the visible text of an answer beyond its segments, with the numbers that the model knows."""
    text = AnswerText(places)
    text.go_on_behind(turn.answers)
    text.finish()
    known = text.text.removesuffix(_CUT_CHARACTER)
    if len(shown) <= len(text.text) or not shown.startswith(known):
        return ""
    return renumbered(shown[len(text.text) :], {place + 1: number - 1 for number, place in places.items()})
