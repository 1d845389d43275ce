"""JSON output of the command line for scripts; its fields are a contract."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from engine.core import Passage, Quote
from engine.errors import RagdollError
from engine.events import AnswerEnded, AnswerFailed, AnswerFinished, IndexFinished


def of_index(finished: IndexFinished) -> dict[str, Any]:
    def problems(pairs: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
        return [{"path": path, "reason": reason} for path, reason in pairs]

    return {
        "documents": {
            "indexed": finished.indexed,
            "unchanged": finished.unchanged,
            "removed": finished.removed,
            "in_part": problems(finished.in_part),
            "skipped": problems(finished.skipped),
            "failed": problems(finished.failed),
        },
        "chunks": finished.chunks,
        "seconds": round(finished.seconds, 3),
    }


def of_answer(end: AnswerFinished) -> dict[str, Any]:
    answer = end.answer
    return {
        "answer": answer.text,
        "thoughts": answer.thoughts,
        "finish_reason": answer.finish_reason,
        "alternatives": [other.text for other in answer.alternatives],
        "quotes": [_of_quote(quote) for quote in answer.quotes],
        "citations": [{"marker": citation.marker, "passage": citation.passage} for citation in answer.citations],
        "passages": [of_passage(passage) for passage in answer.passages],
        "refreshes": [asdict(refresh) for refresh in answer.refreshes],
        "scope": asdict(answer.scope),
        "timeline": asdict(end.timings),
        "model": answer.model,
    }


def of_end(end: AnswerEnded) -> dict[str, Any]:
    """Returns the line of a batch: an answer, or why there is none."""
    if isinstance(end, AnswerFinished):
        return of_answer(end)
    error = end.error if isinstance(end, AnswerFailed) else RagdollError("The question was cancelled.")
    return {"error": {"sentence": error.sentence, "way_out": error.way_out}}


def of_passage(passage: Passage) -> dict[str, Any]:
    names = ("document", "page", "place", "text", "score", "is_offline")
    return {name: getattr(passage, name) for name in names}


def _of_quote(quote: Quote) -> dict[str, Any]:
    return {"text": quote.text, "document": quote.document, "page": quote.page, "place": quote.place}
