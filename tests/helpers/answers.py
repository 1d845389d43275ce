"""Builders of what the engine says about a question: passages, quotes, notices."""

from __future__ import annotations

from typing import Any

from engine import protocol
from engine.protocol import Answer, Citation, Passage, Quote, Scope


def passage(number: int = 0, **changes: Any) -> Passage:
    fields: dict[str, Any] = {
        "row_id": f"row-{number}",
        "document_id": number + 1,
        "document": f"/docs/lease-{number}.pdf",
        "ordinal": number,
        "page": number + 1,
        "start": 10,
        "end": 10 + len("Three months' notice applies."),
        "heading": "Lease › Notice",
        "text": "Three months' notice applies.",
        "score": 1.0 / (number + 1),
    }
    return Passage(**{**fields, **changes})


def quote(source: Passage | None = None, index: int = 0) -> Quote:
    source = source or passage()
    return Quote(source.text, index, source.document, source.page, 0, len(source.text), 0.9)


def found(question_id: str, *passages: Passage) -> protocol.AnswerFound:
    passages = passages or (passage(),)
    scope = Scope(len(passages), 212, 3)
    return protocol.AnswerFound(question_id=question_id, passages=passages, quotes=(quote(passages[0]),), scope=scope)


def tokens(question_id: str, text: str) -> protocol.AnswerTokens:
    return protocol.AnswerTokens(question_id=question_id, text=text)


def timings() -> protocol.Timings:
    return protocol.Timings(
        queued_s=0.0, retrieval_s=0.1, prefill_s=0.2, ttft_s=0.3, total_s=1.0, prompt_tokens=100, generated_tokens=7
    )


def finished(question_id: str, text: str = "Three months [1].", **changes: Any) -> protocol.AnswerFinished:
    fields: dict[str, Any] = {
        "text": text,
        "quotes": (quote(),),
        "citations": (Citation("[1]", 0, text.find("[1]")),),
        "passages": (passage(),),
        "scope": Scope(1, 212, 3),
        "model": "tiny",
        "finish_reason": "stop",
        "segments": ({"role": "assistant", "text": text},),
    }
    answer = Answer(**{**fields, **changes})
    return protocol.AnswerFinished(question_id=question_id, answer=answer, timings=timings())
