"""Tests for engine.cli.questions."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import Engine
from engine.cli import questions
from engine.cli.output import Output
from engine.cli.parser import make_parser
from engine.config import GenerationSettings, Settings
from engine.errors import BadRequest
from engine.events import AnswerEnded, AnswerFailed


@pytest.mark.parametrize("more", [["--each-file"], ["--collection", "Flat"], ["--in", "/docs"], ["--type", "pdf"]])
def test_without_files_nothing_can_be_said_of_where_to_search(more: list[str]):
    options = make_parser().parse_args(["ask", "Who?", "--no-files", *more])
    with pytest.raises(BadRequest, match="nothing is searched"):
        questions.ask(options, Output(io.BytesIO(), is_json=True))


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ([], (None, ())),
        (["--collection", "Flat"], ("Flat", ())),
        (["--collection", "Flat", "--collection", "Flat"], ("Flat", ())),
        (["--collection", "Flat", "--collection", "Tea"], (None, ("Flat", "Tea"))),
    ],
)
def test_a_collection_is_named_once_or_several_times(more: list[str], asked: tuple[object, object]):
    for command in ("ask", "search"):
        options = make_parser().parse_args([command, "Who?", *more])
        collection, filters = questions._confined_to(options)
        assert (collection, filters.collections) == asked


@pytest.mark.parametrize("command", ["ask", "search"])
@pytest.mark.parametrize("more", [[], ["Who?", "--batch", "BATCH"]])
def test_there_is_one_thing_to_ask(command: str, more: list[str], tmp_path: Path):
    (tmp_path / "batch.jsonl").write_text('{"id": 1, "query": "Who?"}\n')
    words = [str(tmp_path / "batch.jsonl") if word == "BATCH" else word for word in more]
    options = make_parser().parse_args([command, *words])
    with pytest.raises(BadRequest, match="or --batch FILE"):
        options.run(options, Output(io.BytesIO(), is_json=True))


def test_whoever_stops_a_batch_has_what_was_answered_by_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def answer_one_and_stop(*_: object, **__: object) -> Iterator[AnswerEnded]:
        yield AnswerFailed("1", BadRequest("The question is empty."))
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "ask_in_turn", answer_one_and_stop)
    batch = tmp_path / "batch.jsonl"
    batch.write_text('{"id": 1, "question": " "}\n{"id": 2, "question": "Who?"}\n')
    told = io.BytesIO()
    with pytest.raises(KeyboardInterrupt):
        questions.ask(make_parser().parse_args(["ask", "--batch", str(batch)]), Output(told, is_json=True))
    assert [json.loads(line)["id"] for line in told.getvalue().splitlines()] == [1]


@pytest.mark.parametrize(
    ("more", "beam_width"),
    [([], 4), (["--answers", "2"], 1), (["--beams", "3"], 3), (["--answers", "2", "--beams", "3"], 3)],
)
def test_beams_of_the_settings_are_for_single_answers_and_those_asked_for_stay(more: list[str], beam_width: int):
    settings = Settings(generation=GenerationSettings(beam_width=4))
    options = make_parser().parse_args(["ask", "Who?", *more])
    assert questions._sampling(options, settings).beam_width == beam_width
