"""Tests for app.chats.file_stems."""

from __future__ import annotations

import pytest

from app.chats.file_stems import compared, file_stem


@pytest.mark.parametrize(
    ("title", "stem"),
    [
        ("What notice period applies?", "What notice period applies"),
        ("../../etc/passwd", "etc-passwd"),
        ("a/b\\c:d*e", "a-b-c-d-e"),
        ("...", "chat"),
        ("", "chat"),
        ("  two\n lines ", "two lines"),
        ("con", "con-"),
        ("租约 (第 1 部分)", "租约 (第 1 部分)"),
        ("हिन्दी", "हिन्दी"),
    ],
)
def test_a_file_is_called_what_every_file_system_takes(title, stem):
    assert file_stem(title) == stem


@pytest.mark.parametrize("letter", ["a", "ü", "租"])
def test_a_long_title_is_cut_between_letters(letter):
    stem = file_stem(letter * 500)
    assert set(stem) == {letter}
    assert 170 < len(stem.encode()) <= 180


def test_names_that_some_file_system_takes_for_one_are_told_apart():
    taken: set[str] = set()
    made = []
    for title in ("Same", "same", "SAME?", "Über", "U\u0308ber"):
        made.append(file_stem(title, taken))
        taken.add(compared(made[-1]))
    assert made == ["Same", "same (2)", "SAME (3)", "Über", "U\u0308ber (2)"]
