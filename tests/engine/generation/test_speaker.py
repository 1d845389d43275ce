"""Tests for engine.generation.speaker."""

from __future__ import annotations

import pytest

from engine.generation.chat_template import PromptPart
from engine.generation.speaker import Speaker


def test_tokens_are_known_of_what_was_asked_for_last_and_long_texts_do_not_add_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.generation.speaker.CACHED_CHARACTERS", 1000)
    asked: list[str] = []

    def tokenize(text: str, is_markup: bool) -> list[int]:
        asked.append(text)
        return [len(text)]

    speaker = Speaker(None, tokenize, 4096)
    short, long, longer = "a" * 10, "b" * 500, "c" * 600

    def read(*texts: str) -> list[str]:
        """Those of them whose tokens were not known."""
        asked.clear()
        assert [speaker.tokens(PromptPart(text)) for text in texts] == [(len(text),) for text in texts]
        return list(asked)

    assert read(short, long, short, long, short) == [short, long]
    assert read(longer, short) == [longer]
    assert read(long, short) == [long]
    # One that has no room at all leaves the others theirs.
    whole = "d" * 1001
    assert read(whole, whole, long, short) == [whole, whole]
    assert speaker.told(True).tokens(PromptPart(short)) == (10,)
    assert asked == [whole, whole]
