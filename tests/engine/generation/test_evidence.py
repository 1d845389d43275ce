"""Tests for engine.generation.evidence."""

from __future__ import annotations

from engine.core import Passage
from engine.generation.evidence import EvidencePassage


def test_what_only_keeps_spans_right_is_not_read():
    joined = Passage("r7", 7, "/docs/a.md", 3, None, 0, 19, "Head", f"One.{' ' * 198}\n\n    code", 0.5)
    evidence = EvidencePassage.of(joined)
    assert evidence.text == "One.\n\n    code"
    assert evidence.source == joined
