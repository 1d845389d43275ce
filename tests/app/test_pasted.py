"""Tests for app.pasted: what was pasted is kept under a name that says what it is, and nothing is ever overwritten."""

from __future__ import annotations

from datetime import date

import pytest

from app import pasted

DAY = date(2026, 3, 31)


def test_a_text_is_called_by_its_first_words_and_the_day(tmp_path):
    file = pasted.keep_text(tmp_path / "pasted", "\n\n  Dear Ms Smith,\n\nthe roof leaks.\n", DAY)
    assert file == tmp_path / "pasted" / "Dear Ms Smith, 2026-03-31.txt"
    assert file.read_text(encoding="utf-8") == "\n\n  Dear Ms Smith,\n\nthe roof leaks.\n"


def test_what_was_pasted_before_stays_as_it_is(tmp_path):
    files = [pasted.keep_text(tmp_path, f"Minutes\n{number}", DAY) for number in range(3)]
    assert [file.name for file in files] == [
        "Minutes 2026-03-31.txt",
        "Minutes 2026-03-31 (2).txt",
        "Minutes 2026-03-31 (3).txt",
    ]
    assert [file.read_text()[-1] for file in files] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("../../etc/passwd: no <file>|*?", "etc passwd no file"),
        ("...hidden", "hidden"),
        ("合同 第三条", "合同 第三条"),
        ("word " * 40, " ".join(["word"] * 9)),
        ("x" * 200, "x" * 48),
        ("{}\n***\n", "Pasted text"),
        ("", "Pasted text"),
    ],
)
def test_whatever_a_text_begins_with_its_name_is_one(tmp_path, text, name):
    file = pasted.keep_text(tmp_path, text, DAY)
    assert file.name == f"{name} 2026-03-31.txt"
    assert file.parent == tmp_path


def test_letters_that_are_none_do_not_lose_the_rest(tmp_path):
    assert pasted.keep_text(tmp_path, "a\ud800b", DAY).read_text() == "a?b"


def test_a_picture_is_kept_as_it_is(tmp_path):
    file = pasted.keep_picture(tmp_path, b"png", DAY)
    assert (file.name, file.read_bytes()) == ("Pasted picture 2026-03-31.png", b"png")


def test_of_what_cannot_be_written_nothing_is_left(tmp_path, monkeypatch):
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def write(self, content):
            raise OSError(28, "No space left on device")

    def opened(file, mode):
        file.touch()
        return Full()

    monkeypatch.setattr(pasted.Path, "open", opened)
    with pytest.raises(OSError, match="No space"):
        pasted.keep_text(tmp_path, "Minutes", DAY)
    assert list(tmp_path.iterdir()) == []
