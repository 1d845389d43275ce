"""The sentences below an answer: what it is based on, what was searched, how long it took, why it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication

from app.models.question_filters import chips
from app.sentences import listed
from app.widgets.figures import count_text, file_name, seconds_text

if TYPE_CHECKING:
    from app.models.turns import TurnView

# Characters; the sources show the whole name.
_MOST_OF_NAME = 32


def awaited_sentence(turn: TurnView) -> str:
    """Returns `Reading report.pdf first…`: what is read before the question is asked; "" for nothing."""
    if not turn.awaited:
        return ""
    names, others = file_name(turn.awaited[0]), len(turn.awaited) - 1
    if others:
        words = _tr("%1 and 1 other") if others == 1 else _tr("%1 and %2 others")
        names = words.replace("%2", count_text(others)).replace("%1", names)
    words = _tr("Indexing is paused in the Library; %1 comes first…") if turn.is_paused else _tr("Reading %1 first…")
    return words.replace("%1", names)


def scope_sentence(turn: TurnView) -> str:
    """Returns `from 6 of 212 passages in 3 files`: how much of the library the answer is based on.

    For a document that was read through: `read all of lease.pdf`, or `read 18 of 96 passages of lease.pdf`.
    """
    scope = turn.scope
    if scope is None:
        return ""
    if scope.reads_through and turn.passages:
        return _read_sentence(scope.passages_used, scope.passages_found, short(file_name(turn.passages[0].document)))
    if not turn.searches:
        return _tr("with passages of earlier answers")
    words = _tr("from %1 of %2 passages in 1 file") if scope.files == 1 else _tr("from %1 of %2 passages in %3 files")
    figures = (scope.passages_used, scope.passages_found, scope.files)
    for place, figure in zip(("%1", "%2", "%3"), figures, strict=True):
        words = words.replace(place, count_text(figure))
    return words


def _read_sentence(num_read: int, num_parts: int, name: str) -> str:
    words = _tr("read all of %3") if num_read == num_parts else _tr("read %1 of %2 passages of %3")
    return words.replace("%1", count_text(num_read)).replace("%2", count_text(num_parts)).replace("%3", name)


def short(name: str) -> str:
    """Returns the beginning and the end of a long name."""
    return name if len(name) <= _MOST_OF_NAME else f"{name[: _MOST_OF_NAME // 2]}…{name[-(_MOST_OF_NAME // 2 - 1) :]}"


def writer_sentence(turn: TurnView) -> str:
    """Returns `Written by Qwen3 4B`: the model that answered, even if the chat has another now; "" for quotes."""
    return _tr("Written by %1").replace("%1", turn.model) if turn.model else ""


def searched_sentence(turn: TurnView) -> str:
    """Returns `Searched 5,801 chunks in 112 files`: what the filters left; "" if it was not counted."""
    scope = turn.scope
    if scope is None or not scope.chunks_searched:
        return ""
    if scope.files_searched == 1:
        words = _tr("Searched 1 chunk in 1 file") if scope.chunks_searched == 1 else _tr("Searched %1 chunks in 1 file")
    else:
        words = _tr("Searched %1 chunks in %2 files")
    return words.replace("%1", count_text(scope.chunks_searched)).replace("%2", count_text(scope.files_searched))


def refreshed_sentence(turn: TurnView) -> str:
    """Returns how often and where more passages were found while writing; "" if one search was enough."""
    if not turn.refreshes:
        return ""
    places = [f"{min(100, round(100 * refresh.offset / max(1, len(turn.text))))} %" for refresh in turn.refreshes]
    words = (
        _tr("More passages were found once while writing, at %2 of the answer")
        if len(places) == 1
        else _tr("More passages were found %1 times while writing, at %2 of the answer")
    )
    return words.replace("%1", str(len(places))).replace("%2", listed(places))


def confined_sentence(turn: TurnView) -> str:
    """Returns `Searched: PDF files · changed since 2025-01-01`: chosen filters, and those found in the question."""
    if not turn.searches:
        return _tr("Your files were not searched for this answer.") if turn.text else ""
    chosen = [chip.text for chip in chips(turn.filters)]
    recognised = list(turn.scope.recognised) if turn.scope else []
    parts = [_tr("Searched: %1").replace("%1", " · ".join(chosen)) if chosen else ""]
    parts.append(_tr("From your question: %1").replace("%1", " · ".join(recognised)) if recognised else "")
    return " · ".join(part for part in parts if part)


def cut_sentence(turn: TurnView, *, can_go_on: bool) -> str:
    """Returns why an answer breaks off; "" if it is complete."""
    if turn.state != "finished" or turn.model is None or turn.finish_reason != "length":
        return ""
    if can_go_on:
        return _tr(
            "The answer was cut off. Continue it, or raise “Maximum answer length” in the settings for the next ones."
        )
    return _tr("The answer was cut off. Raise “Maximum answer length” or “Context length” in the settings.")


def unfounded_sentence(turn: TurnView, follows_sources: bool = False) -> str:
    """Returns that a model answered from general knowledge, because nothing was found; "" if there are sources.

    A follow-up may be based on the passages of an earlier turn, which the model gets again.
    """
    if turn.state != "finished" or turn.model is None or turn.passages or not turn.text or not turn.searches:
        return ""
    if follows_sources and turn.was_reading:
        return _tr("Nothing new was found for this question in the files that had been indexed by then.")
    if follows_sources:
        return _tr("Nothing new was found in your files for this question.")
    if turn.was_reading:
        return _tr("Nothing was found in the files that had been indexed by then; this answer is not based on them.")
    return _tr("Nothing was found in your files; this answer is not based on them.")


def alike_sentence(turn: TurnView) -> str:
    """Returns why there are fewer branches than requested answers; "" if all of them differ."""
    # Beams that came out alike were not asked for as several answers.
    if not turn.num_alike or turn.num_answers == 1:
        return ""
    words = _tr("%1 answers were written; duplicates are shown once.")
    if turn.num_alike == turn.num_answers - 1:
        words = _tr("All %1 answers are the same. A higher temperature in the settings makes them differ.")
    return words.replace("%1", count_text(turn.num_answers))


def timing_sentence(turn: TurnView) -> str:
    """Returns `First token after 1.2 s · 31 tokens/s · 4.8 s in total`, and cached tokens; "" without timings."""
    timings = turn.timings
    if timings is None:
        return ""
    parts = [_tr("First token after %1").replace("%1", seconds_text(timings.ttft_s))]
    writing_s = timings.total_s - timings.ttft_s
    if timings.generated_tokens > 1 and writing_s > 0:
        parts.append(_tr("%1 tokens/s").replace("%1", f"{(timings.generated_tokens - 1) / writing_s:.1f}"))
    if timings.cached_tokens:
        words = _tr("%1 of %2 prompt tokens from the cache").replace("%1", count_text(timings.cached_tokens))
        parts.append(words.replace("%2", count_text(timings.prompt_tokens)))
    parts.append(_tr("%1 in total").replace("%1", seconds_text(timings.total_s)))
    return " · ".join(parts)


def _tr(text: str) -> str:
    return QCoreApplication.translate("TurnView", text)
