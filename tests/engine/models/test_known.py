"""Tests for engine.models.known."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import BadRequest
from engine.models.known import called, named, names_of, with_model, without_model


def test_a_model_stands_in_the_list_once_newest_last():
    known = with_model(("/a.gguf", "/b.gguf"), Path("/a.gguf"))
    assert known == ("/b.gguf", "/a.gguf")
    assert without_model(known, Path("/b.gguf")) == ("/a.gguf",)


def test_a_model_is_found_by_path_file_name_or_stem():
    known = ("/models/tiny.gguf",)
    assert {named(known, name) for name in ("tiny", "tiny.gguf", "/models/tiny.gguf")} == {Path(known[0])}
    assert named(known, "other") is None
    # A shell leaves the home of an unknown user as it is typed.
    assert named(known, "~nobody-of-that-name/tiny.gguf") is None


@pytest.mark.parametrize("name", ["owner/name/m.gguf", "owner/name/m", "name/m"])
def test_one_of_several_of_a_name_is_meant_by_the_folders_above_it(name: str):
    known = ("/models/other/m.gguf", "/models/owner/name/m.gguf")
    assert named(known, name) == Path(known[1])
    assert called(known, "") == called(known, ".") == []


def test_where_several_are_called_so_none_is_meant_but_by_its_path():
    known = ("/models/a/tiny.gguf", "/models/b/tiny.gguf")
    with pytest.raises(BadRequest, match=r"Several models are called tiny: /models/a/tiny.gguf, /models/b/tiny.gguf"):
        named(known, "tiny")
    assert named(known, known[1]) == Path(known[1])


@pytest.mark.parametrize(
    "known",
    [
        ("/models/a.gguf", "/data/a.gguf"),
        ("/m/one/x/a.gguf", "/m/two/x/a.gguf", "/m/a.b.gguf"),
        ("/a/o/n/m.gguf", "/b/o/n/m.gguf", ""),
    ],
)
def test_each_is_meant_by_the_name_it_is_shown_with(known: tuple[str, ...]):
    for path, name in zip(known, names_of(known), strict=True):
        assert not path or named(known, name) == Path(path)
