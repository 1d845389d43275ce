"""Tests for engine.library.root_looks."""

from __future__ import annotations

import threading
from collections.abc import Hashable

from engine.library.root_looks import RootLooks


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

    looks = RootLooks(look, patience_seconds=0.05)
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


def test_of_who_never_answered_nothing_is_known() -> None:
    never = threading.Event()
    looks = RootLooks(lambda path: never.wait(20) if path == "share" else path, patience_seconds=0.05)
    assert looks.at(["share", "here"]) == {"share": None, "here": "here"}
    never.set()


def test_a_path_that_is_not_asked_for_any_more_is_forgotten() -> None:
    seen = {"a": 1}
    looks = RootLooks(seen.get)
    assert looks.at(["a"]) == {"a": 1}
    assert looks.at([]) == {}
    assert looks.at(["a"]) == {"a": 1}
