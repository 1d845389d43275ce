"""Tests for engine.library.root_looks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Hashable, Iterator
from pathlib import Path

import pytest

from engine.catalog import Root
from engine.library import root_looks
from engine.library.moves import is_surely_gone, stands
from engine.library.root_looks import RootLooks, answers
from engine.library.scanner import Scan, scan


def all_of(looking: Generator[str, None, Scan]) -> Scan:
    while True:
        try:
            next(looking)
        except StopIteration as end:
            found: Scan = end.value
            return found


def test_who_does_not_answer_is_asked_once_and_is_what_it_was_until_it_does() -> None:
    answers, asked = {"b": threading.Event(), "d": threading.Event()}, list[str]()
    for event in answers.values():
        event.set()
    seen = {"a": 1, "b": 2, "c": 3, "d": 4}

    def look(path: str) -> Hashable:
        asked.append(path)
        if path in answers:
            assert answers[path].wait(20)
        return seen[path]

    # Those that answer need time for that on a busy machine too.
    looks = RootLooks(look, patience_seconds=1.0)
    assert looks.at("abcd") == {"a": 1, "b": 2, "c": 3, "d": 4}
    answers["b"].clear()
    answers["d"].clear()
    seen |= {"a": 10, "b": 20, "c": 30}
    asked.clear()
    for _ in range(3):
        assert looks.at("abcd") == {"a": 10, "b": 2, "c": 30, "d": 4}
    assert looks.silent == {"b", "d"}
    assert (asked.count("a"), asked.count("b"), asked.count("d")) == (3, 1, 1)
    answers["b"].set()
    for silent in tuple(looks._silent.values()):
        if silent.give_up() == "b":
            assert silent.is_over.wait(20)
    assert looks.at("abcd") == {"a": 10, "b": 20, "c": 30, "d": 4}
    assert looks.silent == {"d"}
    answers["d"].set()


def test_slow_answers_of_many_roots_are_all_waited_for() -> None:
    def look(path: str) -> Hashable:
        assert not threading.Event().wait(0.25)
        return path

    looks = RootLooks(look, patience_seconds=1.0)
    assert looks.at("abcdef") == {path: path for path in "abcdef"}
    assert not looks.silent


def test_of_who_never_answered_nothing_is_known() -> None:
    never = threading.Event()
    looks = RootLooks(lambda path: never.wait(20) if path == "share" else path, patience_seconds=1.0)
    assert looks.at(["share", "here"]) == {"share": None, "here": "here"}
    never.set()


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    """Looks at what is put in there hang until `end`."""
    hanging = Hanging(os.stat)
    monkeypatch.setattr(os, "stat", hanging.stat)
    monkeypatch.setattr(root_looks, "LONG_PATIENCE_SECONDS", 0.05)
    yield hanging
    hanging.end.set()


class Hanging(set[str]):
    def __init__(self, stat: Callable[..., os.stat_result]) -> None:
        self.end, self.looked, self._stat = threading.Event(), list[str](), stat

    def stat(self, path: str, **options: object) -> os.stat_result:
        if os.fspath(path) in self:
            self.looked.append(os.fspath(path))
            self.end.wait(20)
        return self._stat(path, **options)


def test_a_root_that_does_not_answer_is_absent_and_waited_for_once(
    tmp_path: Path, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = tmp_path / "share"
    share.mkdir()
    (share / "a.md").touch()
    root = Root(1, "Documents", str(share), is_folder=True, device=share.stat().st_dev, is_surveyed=True)
    hanging.add(str(share))
    for _ in range(3):
        assert all_of(scan(str(share))).absence.startswith("It does not answer;")
        assert all_of(scan(str(share / "a.md"))).absence.startswith("It does not answer;")
        assert not stands(root)
        assert not is_surely_gone(root)
    assert hanging.looked == [str(share)]
    monkeypatch.setattr(root_looks, "LONG_PATIENCE_SECONDS", 20.0)
    look = root_looks._UNANSWERED[str(share)]
    hanging.end.set()
    assert look.is_over.wait(20)
    assert [file.path for file in all_of(scan(str(share))).files] == [str(share / "a.md")]
    assert stands(root)


def test_of_many_files_that_do_not_answer_the_first_is_waited_for_and_each_is_a_place_to_stop(
    tmp_path: Path, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_looks, "SHORT_PATIENCE_SECONDS", 0.0)
    files = [str(tmp_path / f"{number}.md") for number in range(20)]
    hanging.update(files)
    assert not answers(files[0])
    monkeypatch.setattr(root_looks, "LONG_PATIENCE_SECONDS", 600.0)
    for file in files:
        looking = scan(file)
        assert next(looking) == file
        assert all_of(looking).absence.startswith("It does not answer;")


def test_a_path_that_is_not_asked_for_any_more_is_forgotten() -> None:
    seen = {"a": 1}
    looks = RootLooks(seen.get)
    assert looks.at(["a"]) == {"a": 1}
    assert looks.at([]) == {}
    assert looks.at(["a"]) == {"a": 1}
