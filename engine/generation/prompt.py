"""From question, evidence and conversation to a prompt that fits the context; and what a turn leaves for the next.

Conversations are append-only: the evidence of turn n stays where it was and new evidence follows the history,
so that every turn finds the keys and values of all earlier ones (other applications move the retrieved text each
turn and read everything again). Passages are numbered anew in each turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import resources
from engine.core import Passage
from engine.errors import BadRequest, PromptTooLong
from engine.generation.chat_template import ChatTemplate, Message, PromptPart, TemplateBroken, plain_prompt

# A passage cut shorter than this says nothing.
MIN_PASSAGE_TOKENS = 24
# Earlier turns get at most this share of what is left for them and the passages.
HISTORY_SHARE = 0.5
MAX_FITTING_ROUNDS = 8
NOTHING_FOUND = "No passage in the user's files fits this question.\n\n"


@dataclass(frozen=True, slots=True)
class EvidencePassage:
    """A passage as the model reads it; `text` may be cut to fit. `title` is the file's name, never its folder."""

    document_id: int
    title: str
    page: int | None
    text: str

    @classmethod
    def of(cls, passage: Passage) -> EvidencePassage:
        return cls(passage.document_id, PurePath(passage.document).name, passage.page, passage.text)

    def block(self, number: int) -> str:
        where = self.title if self.page is None else f"{self.title}, page {self.page}"
        return f"[{number}] {where}\n{self.text}\n\n"


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier question with its evidence and answer."""

    question: str
    passages: tuple[EvidencePassage, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Speaker:
    """How one model is spoken to: its template (None: plain text), its tokenizer, and its room in tokens."""

    template: ChatTemplate | None
    count_tokens: Callable[[str], int]
    num_cells: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads. `passages` are the first ones of the evidence, as many as fitted."""

    parts: tuple[PromptPart, ...]
    passages: tuple[EvidencePassage, ...]
    num_tokens: int
    num_turns: int


def answer_reserve(max_tokens: int, num_cells: int) -> int:
    """Tokens kept free for the answer: what was asked for, but at most a quarter of a small context."""
    return max(1, min(max_tokens, num_cells // 4))


def compose(
    question: str, passages: Sequence[Passage], history: Sequence[Turn], speaker: Speaker, reserve_tokens: int
) -> Prompt:
    """The longest prompt that fits: instructions, newest turns, passages best first (the last one cut), the question.

    Raises:
        PromptTooLong: Even the bare question does not fit.
    """
    budget = speaker.num_cells - reserve_tokens
    instructions = _instructions(question, speaker, budget)
    evidence = [EvidencePassage.of(passage) for passage in passages]
    room = budget - _count(_messages(instructions, (), (), question), speaker)
    for _ in range(MAX_FITTING_ROUNDS):
        turns = _newest_turns(history, int(room * HISTORY_SHARE), speaker)
        used = sum(_turn_tokens(turn, speaker) for turn in turns)
        fitting = _fitting_passages(evidence, room - used, speaker)
        messages = _messages(instructions, turns, fitting, question)
        parts = _render(messages, speaker)
        num_tokens = _count_parts(parts, speaker)
        if num_tokens <= budget:
            return Prompt(parts, fitting, num_tokens, len(turns))
        room -= num_tokens - budget
    parts = _render(_messages("", (), (), question), speaker)
    return Prompt(parts, (), _count_parts(parts, speaker), 0)


def segments_of_turn(question: str, passages: Sequence[EvidencePassage], answer: str) -> tuple[dict[str, Any], ...]:
    """What the asker keeps and hands back as transcript; plain JSON."""
    evidence = [
        {"document_id": passage.document_id, "title": passage.title, "page": passage.page, "text": passage.text}
        for passage in passages
    ]
    return (
        {"role": "user", "question": question, "passages": evidence},
        {"role": "assistant", "text": answer},
    )


def turns_of_transcript(transcript: Sequence[Mapping[str, Any]], known_ids: Collection[int]) -> tuple[Turn, ...]:
    """The earlier turns; passages of documents that left the library leave the transcript too.

    Raises:
        BadRequest: These are no segments of ours.
    """
    try:
        pairs = zip(transcript[::2], transcript[1::2], strict=True)
        return tuple(
            Turn(
                question=str(user["question"]),
                passages=tuple(
                    EvidencePassage(int(p["document_id"]), str(p["title"]), p["page"], str(p["text"]))
                    for p in user["passages"]
                    if int(p["document_id"]) in known_ids
                ),
                answer=str(assistant["text"]),
            )
            for user, assistant in pairs
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadRequest("The conversation's earlier turns cannot be read.", "Start a new chat.") from error


def documents_in_transcript(transcript: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """The documents whose passages earlier turns hold."""
    return frozenset(
        passage["document_id"]
        for segment in transcript
        for passage in segment.get("passages", ())
        if isinstance(passage, Mapping) and isinstance(passage.get("document_id"), int)
    )


def _instructions(question: str, speaker: Speaker, budget: int) -> str:
    """The fullest instructions that leave most of the context to question and passages."""
    bare = _count(_messages("", (), (), question), speaker)
    if bare > budget:
        raise PromptTooLong(
            f"The question is too long for this model, which reads {speaker.num_cells:,} tokens at a time.",
            "Shorten the question or choose a model with a larger context.",
        )
    for name in ("prompts/answer.txt", "prompts/answer_short.txt"):
        text = resources.text(name).strip()
        if speaker.count_tokens(text) <= (budget - bare) // 4:
            return text
    return ""


def _messages(
    instructions: str, turns: Sequence[Turn], passages: Sequence[EvidencePassage], question: str
) -> list[Message]:
    messages = [Message("system", (instructions,))] if instructions else []
    for turn in turns:
        messages.append(_user_message(turn.question, turn.passages))
        messages.append(Message("assistant", (turn.answer,)))
    messages.append(_user_message(question, passages))
    return messages


def _user_message(question: str, passages: Sequence[EvidencePassage]) -> Message:
    blocks = [passage.block(number) for number, passage in enumerate(passages, start=1)]
    return Message("user", (*(blocks or [NOTHING_FOUND]), f"Question: {question}"))


def _render(messages: Sequence[Message], speaker: Speaker) -> tuple[PromptPart, ...]:
    if speaker.template is None:
        return plain_prompt(messages)
    try:
        return speaker.template.render(messages)
    except TemplateBroken:
        return plain_prompt(messages)


def _newest_turns(history: Sequence[Turn], budget: int, speaker: Speaker) -> tuple[Turn, ...]:
    kept: list[Turn] = []
    for turn in reversed(history):
        budget -= _turn_tokens(turn, speaker)
        if budget < 0:
            break
        kept.insert(0, turn)
    return tuple(kept)


def _turn_tokens(turn: Turn, speaker: Speaker) -> int:
    message = _user_message(turn.question, turn.passages)
    return sum(speaker.count_tokens(text) for text in (*message.parts, turn.answer)) + 16


def _fitting_passages(
    evidence: Sequence[EvidencePassage], budget: int, speaker: Speaker
) -> tuple[EvidencePassage, ...]:
    """Best first until the room is used up; the one that does not fit whole is cut, the rest is left out."""
    fitting: list[EvidencePassage] = []
    for number, passage in enumerate(evidence, start=1):
        cost = speaker.count_tokens(passage.block(number))
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
        cut = EvidencePassage(passage.document_id, passage.title, passage.page, text)
        cost = speaker.count_tokens(cut.block(number))
        if cost <= budget:
            return cut
        if budget < MIN_PASSAGE_TOKENS:
            return None
        length = min(len(text) - 1, int(len(text) * budget / cost))
        text = _whole_words(text[:length])
    return None


def _whole_words(text: str) -> str:
    return text[: text.rfind(" ")] if " " in text else text


def _count(messages: Sequence[Message], speaker: Speaker) -> int:
    return _count_parts(_render(messages, speaker), speaker)


def _count_parts(parts: Sequence[PromptPart], speaker: Speaker) -> int:
    return sum(speaker.count_tokens(part.text) for part in parts) + 1
