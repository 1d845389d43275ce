"""Transcripts: the turns of a conversation as plain JSON, which the caller keeps and returns with the next question.

The engine stores none of it: passages of documents that have left the library are dropped when it is read, and the
formats of older versions are read as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from engine.core import Passage
from engine.errors import BadRequest
from engine.generation.conversation import Continuation, Turn, next_number
from engine.generation.evidence import EvidencePassage

# The fields of a passage in a transcript, besides its document, its page and its text.
_PLACE = ("row_id", "document", "ordinal", "start", "end", "heading", "score", "place")


def transcript_of(turn: Turn) -> tuple[dict[str, Any], ...]:
    """Returns the JSON of a turn, which the caller keeps and returns later."""
    day = {"asked_on": turn.asked_on.isoformat()} if turn.asked_on is not None else {}
    numbers = {"first_number": turn.first_number} if turn.first_number != 1 else {}
    also = {"also": list(turn.also)} if turn.also else {}
    told = {**day, **numbers, **also, **({} if turn.searches else {"searches": False})}
    pieces: list[dict[str, Any]] = [
        {"role": "user", "question": turn.question, "passages": _evidence(turn.passages), **told},
        _written(turn.answer, turn.tokens, turn.signature),
    ]
    for more in turn.continuations:
        pieces.append(
            {"role": "user", "question": more.words, "passages": _evidence(more.passages), "goes_on": True},
        )
        pieces.append(_written(more.answer, more.tokens, turn.signature))
    return tuple(pieces)


def turns_of_transcript(transcript: Sequence[Mapping[str, Any]], known_ids: Collection[int]) -> tuple[Turn, ...]:
    """Reads the earlier turns, without passages of documents that have left the library.

    Raises:
        BadRequest: This is not one of our transcripts.
    """
    try:
        turns, num_read, num_known = list[Turn](), 0, 0
        for user, assistant in zip(transcript[::2], transcript[1::2], strict=True):
            goes_on = bool(user.get("goes_on") and turns)
            first_number = turns[-1].first_number if goes_on else int(user.get("first_number", 1))
            num_read, num_known = (num_read, num_known) if goes_on else (0, 0)
            turn = _turn(user, assistant, known_ids, first_number + num_read, first_number + num_known)
            num_read, num_known = num_read + len(user["passages"]), num_known + len(turn.passages)
            if goes_on:
                more, last = Continuation(turn.passages, turn.question, turn.answer, turn.tokens), turns[-1]
                num_left = last.num_left + turn.num_left
                turns[-1] = replace(last, continuations=(*last.continuations, more), num_left=num_left)
            else:
                turns.append(turn)
        return tuple(turns)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadRequest("The conversation's earlier turns cannot be read.", "Start a new chat.") from error


def documents_in_transcript(transcript: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Returns the documents with passages in earlier turns; what is malformed has none."""
    lists = (piece.get("passages") for piece in transcript)
    return frozenset(
        passage["document_id"]
        for passages in lists
        if isinstance(passages, list | tuple)
        for passage in passages
        if isinstance(passage, Mapping) and isinstance(passage.get("document_id"), int)
    )


def next_number_in(transcript: Sequence[Mapping[str, Any]]) -> int:
    """Returns the number of the first passage of the next turn. Raises BadRequest like `turns_of_transcript`."""
    return next_number(turns_of_transcript(transcript, documents_in_transcript(transcript)))


def _evidence(passages: Sequence[EvidencePassage]) -> list[dict[str, Any]]:
    return [
        {
            "document_id": passage.document_id,
            "title": passage.title,
            "page": passage.page,
            "text": passage.text,
            **({"stands": {name: getattr(passage.source, name) for name in _PLACE}} if passage.source else {}),
        }
        for passage in passages
    ]


def _passage(told: Mapping[str, Any], number: int | None) -> EvidencePassage:
    document_id, page, text = int(told["document_id"]), told["page"], str(told["text"])
    source, stands = None, told.get("stands")
    if isinstance(stands, Mapping):
        source = Passage(document_id=document_id, page=page, text=text, **{name: stands[name] for name in _PLACE})
    return EvidencePassage(document_id, str(told["title"]), page, text, number, source)


def _written(text: str, tokens: Sequence[int], signature: str) -> dict[str, Any]:
    written = {"tokens": list(tokens), "model": signature} if tokens else {}
    return {"role": "assistant", "text": text, **written}


def _turn(
    user: Mapping[str, Any],
    assistant: Mapping[str, Any],
    known_ids: Collection[int],
    first_number: int,
    first_known: int,
) -> Turn:
    """Reads a turn, or a continuation of one.

    Its passages were numbered from `first_number` on; without those that have left the library, they would be numbered
    from `first_known` on.
    """
    passages: list[EvidencePassage] = []
    for number, p in enumerate(user["passages"], start=first_number):
        if int(p["document_id"]) in known_ids:
            passages.append(_passage(p, number if number != first_known + len(passages) else None))
    return Turn(
        question=str(user["question"]),
        passages=tuple(passages),
        answer=str(assistant["text"]),
        tokens=tuple(int(token) for token in assistant.get("tokens", ())),
        signature=str(assistant.get("model", "")),
        asked_on=date.fromisoformat(user["asked_on"]) if "asked_on" in user else None,
        first_number=int(user.get("first_number", 1)),
        also=tuple(int(number) for number in user.get("also", ())),
        num_left=len(user["passages"]) - len(passages),
        searches=bool(user.get("searches", True)),
    )
