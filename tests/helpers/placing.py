"""Placements asked for while questions are answered: greedy answers that hang on no near tie, and all in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import NoRoomToLoad
from engine.events import AnswerFinished, Event, PlacementSettled, TokensGenerated
from engine.generation.commands import UseModel
from engine.generation.context import Context, ContextSpec
from engine.generation.loaded import LoadedModel
from engine.generation.model import Model
from tests.engine.generation.conftest import ENDS, Desk
from tests.helpers.decisive import margins_noted

SLOT = 1024
LONG = {"max_tokens": 48, "repeat_penalty": 1.0}
ENDLESS = {"max_tokens": 600, "repeat_penalty": 1.0}
# In another batch, in other cells or read from elsewhere, sums differ by some thousandths, and by more the longer the
# text is that they went into: a near tie could fall the other way.
NEAR_TIE = 0.02


def decisive_questions(model: Path, folder: Path) -> dict[str, str]:
    """Questions whose greedy answers hang on no near tie, with those answers as nothing disturbed them."""
    desk, found = Desk(folder), dict[str, str]()
    with margins_noted() as margins:
        desk.worker.use(UseModel(model))
        for first in range(0, 512, 64):
            questions = {f"How, {seed}?": seed for seed in range(first, first + 64)}
            for question, seed in questions.items():
                desk.ask(question, question, **{**LONG, "seed": seed})
            texts = texts_of(desk, list(questions))
            found |= {text: texts[text] for text, seed in questions.items() if margins[seed] > NEAR_TIE}
            if len(found) >= 6:
                break
        desk.worker.stop()
    assert len(found) >= 6
    return dict(list(found.items())[:6])


def check(desk: Desk) -> None:
    """Once nobody asks anything, nothing holds a cell but what is kept, and the ledger has each byte of it once."""
    desk.wait_until(lambda: not _has_work(desk.loader.loaded_now))
    end_round(desk)
    loaded = desk.loader.loaded_now
    if loaded is None:
        return
    kept = loaded.keeper._cells.shelf
    loaded.loop.cells.check_integrity([kept[node] for node in kept.nodes()])
    spans = desk.ledger.spans()
    assert [span.num_bytes for span in spans if span.what.endswith(" cells")] == [
        loaded.shape.kv_bytes(loaded.context.num_cells)
    ]
    assert sum(span.num_bytes for span in spans if span.owner == "weights") == loaded.shape.weight_bytes
    assert not [span for span in spans if span.what == "answers set aside"]
    assert {span.what for span in spans if span.owner == "workspace"} == {
        f"compute buffer of {device}" for device in loaded.context.compute_bytes
    }


def _has_work(loaded: LoadedModel | None) -> bool:
    return loaded is not None and loaded.loop.has_work


def end_round(desk: Desk) -> None:
    """Waits for what follows in the round that has told something: a fault is told before the model is freed."""
    desk.worker.look_at_devices()
    # Nothing is taken in before that round is over.
    desk.wait_until(desk.worker._inbox.empty)


def placed(desk: Desk, **wanted: Any) -> PlacementSettled:
    """Has the model placed otherwise, and waits until it is."""
    desk.worker.apply(replace(desk.loader.placement, **wanted))
    return desk.wait_for(lambda event: isinstance(event, PlacementSettled))


def slots(count: int) -> dict[str, int]:
    return {"num_slots": count, "num_cells": count * SLOT}


def end_of(desk: Desk, name: str) -> Event:
    """How a question ended, also when that was before something else that was waited for."""

    def ends() -> list[Event]:
        return [event for event in desk.events if isinstance(event, ENDS) and event.question_id == name]

    desk.wait_until(ends)
    (end,) = ends()
    return end


def texts_of(desk: Desk, names: list[str]) -> dict[str, str]:
    ends = {name: end_of(desk, name) for name in names}
    assert all(isinstance(end, AnswerFinished) for end in ends.values()), ends
    return {name: end.answer.text for name, end in ends.items()}


def serving(desk: Desk, model: Path, checked: Callable[[Desk], None]) -> Iterator[Desk]:
    """The body of a fixture: a desk with the model loaded, which is `checked` at the end."""
    desk.worker.use(UseModel(model))
    desk.model_state("loaded")
    yield desk
    checked(desk)


def ask_all(desk: Desk, questions: Iterable[str]) -> None:
    """Asks them at once, and waits until each has begun to be answered."""
    for question in questions:
        desk.ask(question, question, **LONG)
    for question in questions:
        has_begun(desk, question)


def has_begun(desk: Desk, name: str) -> None:
    desk.wait_until(
        lambda: any(isinstance(event, TokensGenerated) and event.question_id == name for event in desk.events)
    )


def refuse(monkeypatch: pytest.MonkeyPatch, is_refused) -> None:
    """Has llama.cpp find no room for such contexts."""
    init = Context.__init__

    def refusing(self: Context, model: Model, spec: ContextSpec, *rest: Any) -> None:
        if is_refused(spec):
            raise NoRoomToLoad(f"There is no room for a context of {spec.num_cells:,} tokens.")
        init(self, model, spec, *rest)

    monkeypatch.setattr(Context, "__init__", refusing)
