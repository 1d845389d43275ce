"""Tests for engine.generation.building: a model whose disk fails while it is tried out."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import WeightsNotRead
from engine.generation.commands import UseModel
from engine.generation.context import Context

NOT_READ = WeightsNotRead("A part of the model could not be read.", "Look whether the disk is in order.")


def fail(monkeypatch: pytest.MonkeyPatch, times: int) -> list[Context]:
    """Makes this many passes fail from now on; returns where they did."""
    failed: list[Context] = []
    decode = Context.decode

    def decode_or_fail(self: Context, stretches) -> list[int]:
        if len(failed) < times:
            failed.append(self)
            raise NOT_READ
        return decode(self, stretches)

    monkeypatch.setattr(Context, "decode", decode_or_fail)
    return failed


def test_a_model_whose_disk_fails_once_is_loaded(desk, tiny_model: Path, monkeypatch) -> None:
    failed = fail(monkeypatch, 1)
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    assert len(failed) == 1


@pytest.mark.expects_warnings
def test_a_model_whose_disk_fails_is_not_said_to_be_damaged(desk, tiny_model: Path, monkeypatch) -> None:
    failed = fail(monkeypatch, 2)
    desk.worker.use(UseModel(tiny_model))
    sentence = desk.model_state("failed").sentence
    assert sentence.endswith("could not be read. Look whether the disk is in order.")
    assert [context.handle for context in failed] == [None, None]
    assert desk.ledger.spans("ram") == ()
