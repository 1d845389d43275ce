"""Converts turns between the shown form (typed values) and the stored form (plain JSON)."""

from __future__ import annotations

import logging
from dataclasses import asdict
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from app.chats import Turn, TurnRecordState
from app.chats.records import Json, Outcome
from app.models.turns import ENDED, TurnState, TurnView
from engine.protocol import Citation, Filters, FinishReason, Manner, Passage, Quote, Refresh, Scope, Timings

log = logging.getLogger(__name__)
T = TypeVar("T")


def outcome_of(view: TurnView) -> Outcome:
    """Returns what to store of a turn."""
    return Outcome(
        state=_recorded(view.state),
        text=view.text,
        error_sentence=view.error_sentence,
        passages=tuple(asdict(passage) for passage in view.passages),
        quotes=tuple(asdict(quote) for quote in view.quotes),
        citations=tuple(asdict(citation) for citation in view.citations),
        segments=view.segments,
        scope=asdict(view.scope) if view.scope else None,
        timings=view.timings.model_dump() if view.timings else None,
        model=view.model,
        finish_reason=view.finish_reason,
        refreshes=tuple(asdict(refresh) for refresh in view.refreshes),
        thoughts=view.thoughts,
    )


def view_of(turn: Turn, branch_index: int = 0, num_branches: int = 1) -> TurnView:
    """Returns the view of a stored turn, without parts that another version wrote and this one cannot read."""
    outcome = turn.outcome
    return TurnView(
        turn_id=turn.turn_id,
        question=turn.question,
        state=_shown(outcome.state),
        text=outcome.text,
        thoughts=outcome.thoughts,
        quotes=_read(tuple[Quote, ...], outcome.quotes) or (),
        passages=_read(tuple[Passage, ...], outcome.passages) or (),
        citations=_read(tuple[Citation, ...], outcome.citations) or (),
        scope=_read(Scope, outcome.scope),
        timings=_read(Timings, outcome.timings),
        model=outcome.model,
        finish_reason=_read(FinishReason, outcome.finish_reason),
        segments=outcome.segments,
        refreshes=_read(tuple[Refresh, ...], outcome.refreshes) or (),
        error_sentence=outcome.error_sentence,
        branch_index=branch_index,
        num_branches=num_branches,
        filters=filters_of(turn.filters),
        searches=turn.searches,
    )


def filters_of(stored: Json) -> Filters:
    """Returns stored filters; none if there are none or if this version cannot read them."""
    return _read(Filters, stored) or Filters()


def stored_filters(filters: Filters) -> Json:
    """Returns what differs from no filters, as JSON data."""
    nothing = asdict(Filters())
    return {name: value for name, value in asdict(filters).items() if value != nothing[name]}


def manner_of(stored: Json) -> Manner:
    """Returns a chat's stored manner; an empty one if this version cannot read it."""
    return _read(Manner, stored) or Manner()


def stored_manner(manner: Manner) -> Json:
    """Returns the values that override the settings, as JSON data."""
    return manner.model_dump(exclude_none=True)


def _recorded(state: TurnState) -> TurnRecordState:
    if state in ENDED:
        return state  # type: ignore[return-value]  # the ends have the same names
    return "writing" if state == "writing" else "asked"


def _shown(state: TurnRecordState) -> TurnState:
    return "queued" if state == "asked" else state


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _read(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        log.info("a stored part of an answer cannot be read: %s", error)
        return None
