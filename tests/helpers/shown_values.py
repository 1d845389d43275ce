"""Values that tests of widgets show: passages, quotes, documents, tiers, turns."""

from __future__ import annotations

from app.models.turns import TurnView
from engine.protocol import Document, DocumentState, Need, Passage, Quote, Span, TierSnapshot

GIB = 2**30


def passage(number: int, text: str = "", page: int | None = 7, score: float = 1.0) -> Passage:
    text = text or f"Passage {number} says something about notice periods."
    return Passage(
        row_id=f"r{number}", document_id=number, document=f"/docs/file-{number}.pdf", ordinal=0, page=page,
        start=10, end=10 + len(text), heading="Lease › Term", text=text, score=score,
    )  # fmt: skip


def quote(index: int, text: str = "") -> Quote:
    text = text or f"Quote from passage {index + 1}."
    return Quote(text=text, passage=index, document=f"/docs/file-{index + 1}.pdf", page=7, start=0, end=9, score=1.0)


def document(number: int, state: DocumentState = "indexed", reason: str = "", needs: Need = "") -> Document:
    return Document(
        document_id=number, collections=("Documents",), path=f"/docs/file-{number}.pdf", state=state, reason=reason,
        size_bytes=4096 * number, mtime_ns=0, content_hash="", format="pdf", num_chunks=3 if state == "indexed" else 0,
        needs=needs,
    )  # fmt: skip


def gpu_tier(*spans: Span, other_bytes: int = GIB) -> TierSnapshot:
    return TierSnapshot(tier="gpu", name="GPU 0", capacity_bytes=8 * GIB, other_bytes=other_bytes, spans=spans)


def turn(number: int = 1, **values: object) -> TurnView:
    """A finished turn with a short answer; `values` change its fields."""
    given: dict[str, object] = {"state": "finished", "text": f"Answer {number}.", "model": "tiny", **values}
    return TurnView(turn_id=f"t{number}", question=f"Question {number}?", **given)  # type: ignore[arg-type]
