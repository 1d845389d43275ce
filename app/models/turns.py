"""A turn as it is shown: one question and its answer so far; and how each notice of the engine changes it.

`after` is a pure function, so that the life of an answer can be tested with values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine import protocol
from engine.protocol import Alternative, Citation, Filters, Notice, Passage, Quote, Refresh, Scope, Unfinished

TurnState = Literal["queued", "searching", "reading", "writing", "finished", "cancelled", "failed"]
NO_FILTERS = Filters()
ENDED: frozenset[TurnState] = frozenset({"finished", "cancelled", "failed"})


@dataclass(frozen=True, slots=True)
class TurnView:
    """What a widget needs to show a turn; a newer one replaces it whole.

    `thoughts` are the model's reasoning before its text.
    `model` is None until the answer is finished, and if the quotes are the answer. `ahead` counts the questions before
    this one while it is queued; `awaited` are files and folders that are read before it is asked (`is_paused`: reading
    is paused). `branch_index` is 0-based among the `num_branches` variants of this turn. `filters` are what the user
    confined the question to; unless it `searches`, it went to the model alone. `num_answers` were requested, and
    `num_alike` of them have the same words as another one; with `beam_width` > 1 the likeliest of so many beams is
    the answer. `was_reading`: files were still being read when the answer was complete. These four are not stored.
    """

    turn_id: str
    question: str
    state: TurnState = "queued"
    text: str = ""
    thoughts: str = ""
    quotes: tuple[Quote, ...] = ()
    passages: tuple[Passage, ...] = ()
    citations: tuple[Citation, ...] = ()
    scope: Scope | None = None
    timings: protocol.Timings | None = None
    model: str | None = None
    finish_reason: protocol.FinishReason | None = None
    segments: tuple[dict[str, object], ...] = ()
    refreshes: tuple[Refresh, ...] = ()
    error_sentence: str = ""
    ahead: int = 0
    awaited: tuple[str, ...] = ()
    is_paused: bool = False
    branch_index: int = 0
    num_branches: int = 1
    filters: Filters = NO_FILTERS
    num_answers: int = 1
    num_alike: int = 0
    beam_width: int = 1
    was_reading: bool = False
    searches: bool = True

    @property
    def id(self) -> str:
        return self.turn_id

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_unfinished(self) -> bool:
        """Returns whether there is text of an answer that was cut off by its length, stopped, or lost."""
        return bool(self.text.strip()) and (self.is_cut_off or self.state in ("cancelled", "failed"))

    @property
    def is_cut_off(self) -> bool:
        """Returns whether a model's answer was ended by the length limit, so that it may be incomplete."""
        return self.state == "finished" and self.model is not None and self.finish_reason == "length"

    @property
    def unfinished(self) -> Unfinished:
        """Returns the answer so far, to continue from."""
        return Unfinished(
            self.text, self.quotes, self.passages, self.scope, self.segments, self.refreshes, self.thoughts
        )


def after(view: TurnView, notice: Notice) -> TurnView:
    """Returns the turn after `notice`; a turn that has ended does not change."""
    if view.has_ended:
        return view
    match notice:
        case protocol.AnswerState(state=state, ahead=ahead, beam_width=beam_width):
            return replace(view, state=state, ahead=ahead, beam_width=beam_width)
        case protocol.AnswerFound(passages=passages, quotes=quotes, scope=scope):
            return replace(view, passages=passages, quotes=quotes, scope=scope)
        case protocol.AnswerTokens(text=piece):
            return replace(view, state="writing", ahead=0, text=view.text + piece)
        case protocol.AnswerThoughts(text=piece):
            return replace(view, state="writing", ahead=0, thoughts=view.thoughts + piece)
        case protocol.AnswerRefreshed(refresh=refresh, passages=passages):
            return replace(view, passages=view.passages + passages, refreshes=(*view.refreshes, refresh))
        case protocol.AnswerRecalled(passages=passages):
            return replace(view, passages=view.passages + passages)
        case protocol.AnswerFinished():
            return _finished(view, notice)
        case protocol.AnswerCancelled(segments=segments):
            # An answer that was being continued keeps the segments of its beginning.
            return replace(view, state="cancelled", ahead=0, segments=segments or view.segments)
        case protocol.AnswerFailed(sentence=sentence, way_out=way_out):
            return failed(view, f"{sentence} {way_out}".strip())
    return view


def going_on(view: TurnView) -> TurnView:
    """Returns a turn whose answer broke off, as it is while being continued: its text so far stays."""
    return replace(view, state="queued", ahead=0, error_sentence="", finish_reason=None, num_answers=1, num_alike=0)


def others(notice: protocol.AnswerFinished) -> tuple[Alternative, ...]:
    """Returns the further answers that differ from those before them; at temperature 0 there are none."""
    different: dict[str, Alternative] = {}
    for other in notice.answer.alternatives:
        different.setdefault(other.text.strip(), other)
    different.pop(notice.answer.text.strip(), None)
    return tuple(different.values())


def with_other(view: TurnView, turn_id: str, other: Alternative) -> TurnView:
    """Returns a finished turn with another answer in its place."""
    return replace(
        view,
        turn_id=turn_id,
        text=other.text,
        thoughts=other.thoughts,
        citations=other.citations,
        finish_reason=other.finish_reason,
        segments=other.segments,
    )


def failed(view: TurnView, sentence: str) -> TurnView:
    """Returns the turn as failed, with the text so far."""
    return replace(view, state="failed", ahead=0, error_sentence=sentence)


def cancelled(view: TurnView, sentence: str = "") -> TurnView:
    return replace(view, state="cancelled", ahead=0, error_sentence=sentence)


def _finished(view: TurnView, notice: protocol.AnswerFinished) -> TurnView:
    answer = notice.answer
    return replace(
        view,
        state="finished",
        ahead=0,
        text=answer.text,
        thoughts=answer.thoughts,
        quotes=answer.quotes,
        passages=answer.passages,
        citations=answer.citations,
        scope=answer.scope,
        timings=_with_thinking(notice.timings, view.timings),
        model=answer.model,
        finish_reason=answer.finish_reason,
        segments=answer.segments,
        refreshes=answer.refreshes,
        num_alike=len(answer.alternatives) - len(others(notice)),
    )


def _with_thinking(timings: protocol.Timings, before: protocol.Timings | None) -> protocol.Timings:
    """Keeps the thinking time of an answer that was continued, whose earlier thoughts are still shown."""
    if before is None or timings.thinking_s:
        return timings
    return timings.model_copy(update={"thinking_s": before.thinking_s})
