"""Tests for engine.second_reading and engine.searching: a question is answered with a reranker, or without it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine import second_reading
from engine.config import GIB, RetrievalSettings, Settings
from engine.embedder.reranker import CrossEncoderReranker
from engine.engine import Engine
from engine.errors import EmbedderUnavailable
from engine.events import Event, ProblemFound
from engine.memory.ledger import Ledger, Reservation
from engine.searching import SearcherOpener
from engine.second_reading import REST_SECONDS, SecondReading
from tests.helpers.quick_stores import use_quick_stores
from tests.helpers.tiny_reranker import write_tiny_reranker

TEXTS = ["a mutex guards", "bread"]


class Memory:
    """So many bytes, which may be short."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.budget_bytes, self.is_short = GIB, False
        self.asked: list[int] = []

    def reserve(self, num_bytes: int) -> Reservation | None:
        self.asked.append(num_bytes)
        return self._ledger.reserve("ram", num_bytes, self.budget_bytes)


class Desk:
    """A second reading by the reranker in a folder, and all that it says."""

    def __init__(self, folder: Path | str) -> None:
        self.ledger, self.told, self.now = Ledger(), list[str](), 0.0
        self.memory = Memory(self.ledger)
        self.reading = SecondReading(str(folder), self.ledger, self.memory, self.told.append, lambda: self.now)

    def scores(self) -> list[float] | None:
        return self.reading.scores("what is a mutex", TEXTS)

    @property
    def held_bytes(self) -> int:
        return self.ledger.held_bytes("ram", "reranker")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_reranker(tmp_path_factory.mktemp("made") / "tiny")


@pytest.fixture
def folder(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "own"))


def test_passages_are_scored_and_what_it_takes_is_asked_for_before_it_is_loaded(folder: Path):
    desk = Desk(folder)
    coming = desk.reading.coming_bytes
    assert coming > 0
    scores = desk.scores()
    assert scores is not None
    assert len(scores) == 2
    assert desk.memory.asked == [coming]
    assert desk.reading.coming_bytes == 0
    assert desk.held_bytes > 0
    # Nothing of what was promised is kept back once it is there.
    assert desk.ledger.reserved_bytes("ram") == 0
    assert desk.scores() == scores
    assert len(desk.memory.asked) == 1
    assert (desk.told, desk.reading.problem) == ([], "")
    desk.reading.close()
    assert desk.ledger.spans() == ()
    assert desk.scores() is None


def test_where_there_is_no_room_it_is_left_out_and_that_is_told_once(folder: Path):
    desk = Desk(folder)
    desk.memory.budget_bytes = 1000
    for _ in range(3):
        assert desk.scores() is None
    assert len(desk.memory.asked) == 1
    desk.now += REST_SECONDS + 1
    assert desk.scores() is None
    [sentence] = desk.told
    assert "no room in memory for the reranker own" in sentence
    assert "in the order in which they were found" in sentence
    assert desk.reading.problem == sentence
    assert desk.held_bytes == 0
    desk.memory.budget_bytes = GIB
    desk.now += REST_SECONDS + 1
    assert desk.scores() is not None
    assert desk.reading.problem == ""


def test_under_pressure_its_memory_is_given_back_and_it_comes_again_after_a_while(folder: Path):
    desk = Desk(folder)
    scores = desk.scores()
    desk.memory.is_short = True
    assert desk.scores() is None
    assert desk.held_bytes == 0
    assert ["Memory is short" in sentence for sentence in desk.told] == [True]
    desk.memory.is_short = False
    # Loading it takes seconds: not again with the very next question.
    assert desk.scores() is None
    # The plan leaves it its room meanwhile.
    assert desk.reading.coming_bytes > 0
    desk.now += REST_SECONDS + 1
    assert desk.scores() == pytest.approx(scores)
    assert len(desk.told) == 1


def test_one_that_is_broken_is_told_once_and_not_loaded_until_its_files_are_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    num_loads, load = [0], CrossEncoderReranker.load

    def counted(reranker: CrossEncoderReranker) -> None:
        num_loads[0] += 1
        load(reranker)

    monkeypatch.setattr(CrossEncoderReranker, "load", counted)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    desk = Desk(folder)
    for _ in range(3):
        assert desk.scores() is None
    assert num_loads == [1]
    [sentence] = desk.told
    assert sentence.startswith("The reranker 'own' cannot be loaded")
    assert sentence.endswith("or none.")
    assert desk.reading.coming_bytes == 0
    assert desk.ledger.spans() == ()
    weights.write_bytes(whole)
    os.utime(weights, ns=(1, 1))
    assert desk.scores() is not None
    assert desk.reading.problem == ""


def test_one_that_is_gone_is_found_when_its_drive_is_back(folder: Path, tmp_path: Path):
    desk = Desk(folder)
    folder.rename(tmp_path / "away")
    assert desk.reading.coming_bytes == 0
    assert desk.scores() is None
    assert desk.scores() is None
    [sentence] = desk.told
    assert "is not on this computer" in sentence
    (tmp_path / "away").rename(folder)
    assert desk.scores() is not None


def test_one_for_which_memory_fails_in_the_midst_of_it_is_given_back(folder: Path, monkeypatch: pytest.MonkeyPatch):
    desk = Desk(folder)
    desk.scores()

    def fail(*_: object) -> list[float]:
        raise EmbedderUnavailable("The reranker 'own' cannot be used: no memory.") from RuntimeError(
            "DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."
        )

    with monkeypatch.context() as short:
        short.setattr(CrossEncoderReranker, "scores", fail)
        assert desk.scores() is None
    assert desk.held_bytes == 0
    desk.now += REST_SECONDS + 1
    assert desk.scores() is not None


def test_whoever_plans_memory_gives_none_back_and_counts_only_the_one_that_is_chosen(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    closed, other, chosen = [], str(shutil.copytree(folder, tmp_path / "other")), [str(folder)]
    monkeypatch.setattr(SecondReading, "close", lambda reading: closed.append(reading.name))
    ledger, none = Ledger(), SimpleNamespace()
    opener = SearcherOpener(
        none,
        none,
        lambda: Settings(retrieval=RetrievalSettings(reranker=chosen[0])),
        ledger,
        none,
        Memory(ledger),
        print,
    )
    # Before anybody has searched.
    assert opener.coming_bytes > 0
    for name in (other, ""):
        chosen[0] = name
        assert opener.coming_bytes == 0
    assert closed == []
    chosen[0] = other
    opener.apply_settings()
    assert closed == [str(folder)]
    assert opener.coming_bytes > 0
    opener.close()
    assert (closed, opener.coming_bytes) == ([str(folder), other], 0)


# --- in a whole engine ---


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    use_quick_stores(monkeypatch.setattr)
    docs = tmp_path / "docs"
    docs.mkdir()
    for number, text in enumerate(("A mutex guards what threads share.", "A mutex is what bread is not.", "Soup.")):
        (docs / f"{number}.txt").write_text(text, encoding="utf-8")
    with Engine.open(tmp_path / "home") as made:
        made.add([docs])
        yield made


def test_passages_come_in_the_order_that_the_reranker_gives_them(
    engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def last_first(_: object, question: str, texts: list[str]) -> list[float]:
        return [float(place) for place, _ in enumerate(texts)]

    before = [passage.text for passage in engine.search("What is a mutex?", 3).passages]
    engine.change_settings({"retrieval.reranker": str(folder)})
    monkeypatch.setattr(second_reading.CrossEncoderReranker, "scores", last_first)
    after = [passage.text for passage in engine.search("What is a mutex?", 3).passages]
    assert len(before) > 1
    assert after == before[::-1]
    reading = engine.second_reading()
    assert reading is not None
    assert reading.problem == ""


def test_a_question_is_answered_though_the_reranker_is_broken_and_why_is_told_once(engine: Engine, folder: Path):
    told: list[Event] = []
    engine.subscribe(told.append)
    engine.change_settings({"retrieval.reranker": str(folder)})
    (folder / "model.safetensors").write_bytes(b"no weights at all")
    for _ in range(2):
        assert engine.ask("What is a mutex?").passages
    assert ["cannot be loaded" in event.sentence for event in told if isinstance(event, ProblemFound)] == [True]


def test_without_one_its_memory_is_given_back_at_once(engine: Engine, folder: Path):
    engine.change_settings({"retrieval.reranker": str(folder)})
    assert engine.search("What is a mutex?", 3).passages
    assert engine.ledger.held_bytes("ram", "reranker") > 0
    engine.change_settings({"retrieval.reranker": ""})
    assert engine.ledger.held_bytes("ram", "reranker") == 0
    assert engine.second_reading() is None


def test_a_folder_that_is_none_is_refused_and_nothing_changes(engine: Engine, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    for none in (str(tmp_path / "empty"), "owner/none"):
        with pytest.raises(EmbedderUnavailable):
            engine.change_settings({"retrieval.reranker": none})
    assert engine.settings.retrieval.reranker == ""


def test_room_is_left_for_it_in_the_plan_before_it_is_loaded(engine: Engine, folder: Path):
    def planned() -> list[int]:
        fixed = engine._parts.adapting._senses.in_force().demand.fixed
        return [span.num_bytes for span in fixed if span.owner == "reranker"]

    assert planned() == []
    engine.change_settings({"retrieval.reranker": str(folder)})
    [num_bytes] = planned()
    assert num_bytes >= engine._parts.searching.coming_bytes > 0
