"""Tests for engine.generation.load_trials."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import ModelLoadFailed
from engine.events import AnswerFailed
from engine.generation.commands import UseModel
from engine.generation.load_trials import MAX_DEATHS, LoadTrials, note_death
from tests.helpers.loaders import loader_in


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "model-on-trial.json"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights")
    return path


def end_while_loading(mark: Path, model: Path) -> None:
    """Runs in a process of its own, which ends like one that an assertion kills."""
    with LoadTrials(mark).of(model):
        os._exit(134)


def die(mark: Path, model: Path, times: int = MAX_DEATHS) -> None:
    for _ in range(times):
        process = multiprocessing.get_context("spawn").Process(target=end_while_loading, args=(mark, model))
        process.start()
        process.join(60)
        assert process.exitcode == 134


def test_a_load_that_ends_leaves_no_mark_however_it_ends(mark, model):
    trials = LoadTrials(mark)
    with trials.of(model):
        assert mark.exists()
    assert not mark.exists()
    with pytest.raises(ModelLoadFailed, match="refused"), trials.of(model):
        raise ModelLoadFailed("It was refused.")
    assert not mark.exists()


def test_a_model_that_ended_the_process_once_is_tried_again_and_twice_is_not(mark, model):
    die(mark, model, times=1)
    with LoadTrials(mark).of(model):
        pass
    die(mark, model)
    with pytest.raises(ModelLoadFailed, match=r"ended 2 times while it loaded model\.gguf") as refused:
        LoadTrials(mark).of(model).__enter__()
    assert "choose this one again" in refused.value.way_out


@pytest.mark.parametrize("is_late", [False, True])
def test_closing_during_a_load_is_no_death_of_the_model_and_takes_none_back(mark, model, is_late: bool):
    def killed(trials: LoadTrials, meanwhile: Callable[[], None] = lambda: None) -> None:
        with trials.of(model):
            meanwhile()
            left = mark.read_bytes()
        mark.write_bytes(left)

    killed(LoadTrials(mark))
    # The window ends an engine that it has asked to close once it stops waiting.
    for _ in range(MAX_DEATHS):
        loader = loader_in(mark.parent)
        if is_late:
            loader.close()
        killed(loader.planner.shared.trials, loader.close)
    killed(LoadTrials(mark))
    with pytest.raises(ModelLoadFailed, match="ended 2 times"):
        LoadTrials(mark).of(model).__enter__()


def test_another_model_and_another_file_of_the_same_name_are_tried(mark, model, tmp_path: Path):
    die(mark, model)
    (tmp_path / "other.gguf").write_bytes(b"weights")
    kept = mark.read_bytes()
    with LoadTrials(mark).of(tmp_path / "other.gguf"):
        pass
    mark.write_bytes(kept)
    model.write_bytes(b"other weights")
    with LoadTrials(mark).of(model):
        pass


@pytest.mark.parametrize("content", [b"", b"[]", b"7", b"{}", b'{"deaths": "two"}', b"\xff\xfe"])
def test_a_mark_that_cannot_be_read_counts_for_nothing(mark, model, content: bytes):
    mark.write_bytes(content)
    with LoadTrials(mark).of(model):
        pass


@pytest.mark.expects_warnings
def test_a_mark_that_cannot_be_written_keeps_nobody_from_loading(model, tmp_path: Path):
    (tmp_path / "no folder").touch()
    with LoadTrials(tmp_path / "no folder" / "mark.json").of(model):
        pass


def test_a_name_that_is_not_utf_8_is_marked_too(mark, tmp_path: Path):
    model = tmp_path / os.fsdecode(b"mod\xe8le.gguf")
    model.write_bytes(b"weights")
    with LoadTrials(mark).of(model):
        kept = mark.read_bytes()
    mark.write_bytes(kept.replace(b'"deaths": 1', b'"deaths": 2'))
    with pytest.raises(ModelLoadFailed):
        LoadTrials(mark).of(model).__enter__()


def test_a_process_that_ends_itself_over_a_loaded_model_counts_as_one_that_a_load_ended(mark, model):
    trials = LoadTrials(mark)
    with trials.of(model):
        ends_over_it = note_death.get()
    assert not mark.exists()
    ends_over_it()
    assert LoadTrials(mark).deaths_of(model) == 1
    # The next one could load it with less memory, and crashes all the same.
    again = LoadTrials(mark)
    with again.of(model):
        pass
    again.note_death(model)
    assert LoadTrials(mark).deaths_of(model) == MAX_DEATHS
    again.reset_failures(model)
    again.note_death(model)
    assert LoadTrials(mark).deaths_of(model) == 1


def test_who_is_chosen_again_is_tried_again_and_no_other_model(mark, model, tmp_path: Path):
    other = tmp_path / "other.gguf"
    other.write_bytes(b"others")
    trials = LoadTrials(mark)
    for one in (model, other):
        trials.note_death(one)
    trials.reset_failures(other)
    assert (trials.deaths_of(model), trials.deaths_of(other)) == (1, 0)


def test_a_file_that_is_gone_by_the_time_it_is_loaded_is_a_sentence(mark, model):
    model.unlink()
    with (
        pytest.raises(ModelLoadFailed, match=f"{model.name} cannot be read any more") as refused,
        LoadTrials(mark).of(model),
    ):
        pass
    assert "drive" in refused.value.way_out
    assert not mark.exists()


def test_a_process_that_is_ended_on_purpose_or_whose_file_is_gone_counts_against_no_model(mark, model):
    trials = LoadTrials(mark)
    with trials.of(model):
        pass
    trials.note_closing()
    trials.note_death(model)
    assert not mark.exists()
    model.unlink()
    LoadTrials(mark).note_death(model)
    assert not mark.exists()


def test_outside_of_a_load_nothing_is_marked(mark, model):
    with LoadTrials(mark).of(model):
        pass
    note_death.get()()
    assert not mark.exists()


@pytest.mark.expects_warnings
def test_the_engine_answers_on_without_a_model_that_ended_it_until_somebody_chooses_it(desk, tiny_model, mark):
    die(mark, tiny_model)
    desk.worker.use(UseModel(tiny_model, is_chosen=False))
    assert "is not tried again" in desk.model_state("failed").sentence
    desk.ask("How?", "a")
    assert isinstance(desk.end_of("a"), AnswerFailed)
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    assert not mark.exists()
    desk.ask("How?", "b", max_tokens=2)
    assert desk.end_of("b").answer.model == "tiny-llama"


def test_a_load_of_another_model_does_not_clear_the_mark_of_one_that_ended_the_process(mark, model, tmp_path: Path):
    other = tmp_path / "other.gguf"
    other.write_bytes(b"more weights")
    for times in (1, 2):
        die(mark, model, times=1)
        with LoadTrials(mark).of(other):
            pass
        assert LoadTrials(mark).deaths_of(model) == times
    with pytest.raises(ModelLoadFailed, match="not tried again"), LoadTrials(mark).of(model):
        pass
