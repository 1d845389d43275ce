"""Tests for engine.api.naming."""

from __future__ import annotations

import pytest

from engine.api.naming import Named, file_of, offered, understood
from engine.errors import BadRequest
from engine.models.known import names_of


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("", Named("", False)),
        ("ragdoll", Named("", False)),
        ("ragdoll:files", Named("", True)),
        ("qwen3-4b", Named("qwen3-4b", False)),
        ("qwen3-4b:files", Named("qwen3-4b", True)),
        ("qwen3-4b:files/Tax 2025/26", Named("qwen3-4b", True, "Tax 2025/26")),
        ("none:files", Named("none", True)),
        ("a:filesystem", Named("a:filesystem", False)),
    ],
)
def test_a_name_says_who_answers_and_from_what(name: str, meaning: Named):
    assert understood(name) == meaning


def test_all_that_is_offered_is_understood():
    names = offered(["a", "b", "a"], ["Work", "Home"])
    assert len(names) == len(set(names)) == 3 * 4 + 3
    meanings = {understood(name) for name in names}
    assert Named("none", True) in meanings
    assert Named("none", False) not in meanings
    assert Named("b", True, "Home") in meanings
    assert Named("", True) in meanings
    assert len(meanings) == len(names)


def test_one_collection_is_all_there_is():
    assert offered([], ["Documents"]) == ["ragdoll", "ragdoll:files", "none:files"]


@pytest.mark.parametrize("name", ["a", "a.gguf", "/m/a.gguf"])
def test_a_known_model_is_meant_by_its_name_or_its_file(name: str):
    assert file_of(name, ("/m/b.gguf", "/m/a.gguf")) == "/m/a.gguf"


@pytest.mark.parametrize("name", ["/dev/zero", "/m/c.gguf", "~nobody/a", "gpt-4o"])
def test_no_other_file_is(name: str):
    assert file_of(name, ("/m/a.gguf",)) is None


def test_quotes_and_whoever_is_chosen_need_not_be_known():
    assert [file_of(name, ()) for name in ("", "none")] == ["", "none"]


ALIKE = ("/m/one/m-gguf/m.gguf", "/m/other/m-gguf/m.gguf", "/m/mine.gguf")


def test_of_files_with_one_name_each_is_offered_with_its_owner_and_meant_by_that():
    assert names_of(ALIKE) == ["one/m-gguf/m", "other/m-gguf/m", "mine"]
    assert [file_of(understood(f"{name}:files").model, ALIKE) for name in names_of(ALIKE)] == list(ALIKE)


@pytest.mark.parametrize("name", ["m", "m.gguf"])
def test_where_several_are_called_so_none_is_meant(name: str):
    with pytest.raises(BadRequest, match="Several models are called m") as error:
        file_of(name, ALIKE)
    assert "one/m-gguf/m, other/m-gguf/m" in error.value.way_out


def test_where_that_says_nothing_either_the_path_does():
    known = ("/a/o/n/m.gguf", "/b/o/n/m.gguf")
    assert names_of(known) == list(known)
    assert [file_of(name, known) for name in known] == list(known)
