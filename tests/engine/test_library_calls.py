"""Tests for engine.library_calls, as far as nothing heavy is loaded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import NothingThere
from engine.events import Event, ProblemFound


def test_of_several_paths_those_that_are_there_are_added_and_the_others_named(engine: Engine, tmp_path: Path):
    note, events = tmp_path / "note.md", list[Event]()
    note.write_text("A note.", encoding="utf-8")
    engine.subscribe(events.append)
    paths = [str(tmp_path / "gone.md"), str(note), str(tmp_path / "away.md")]
    engine.start_adding(paths)
    assert [Path(folder.path) for folder in engine.folders()] == [note]
    (problem,) = [event for event in events if isinstance(event, ProblemFound)]
    assert problem.sentence == f"Not added, because nothing is there: {paths[0]} and one other."
    with pytest.raises(NothingThere):
        engine.start_adding(paths[:1])
    with pytest.raises(NothingThere):
        engine.add(paths)


def test_a_file_that_vanishes_while_bytes_are_counted_counts_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    before = engine.disk_bytes()
    vanishing = engine.home.library / "vanishing.lance"
    vanishing.write_bytes(b"12345")
    assert engine.disk_bytes() == before + 5
    stat = os.stat

    def late_stat(path, *arguments, **options):
        if path == os.fspath(vanishing):
            vanishing.unlink(missing_ok=True)
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", late_stat)
    assert engine.disk_bytes() == before
