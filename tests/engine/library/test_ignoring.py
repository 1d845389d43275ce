"""Tests for engine.library.ignoring."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.config import IGNORE_FILE
from engine.library.ignoring import IgnoreRules, ignored_below, rules_in
from engine.library.removed import Removed
from engine.library.scanner import Scan, scan, scan_below


def write(folder: Path, *names: str) -> None:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"The text of {name}.")


def rules(folder: Path, *lines: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / IGNORE_FILE).write_text("\n".join(lines))


def look(root: Path) -> list[str]:
    return _names(_end(scan(str(root))), root)


def look_below(root: Path, name: str) -> list[str]:
    return _names(_end(scan_below(str(root), str(root / name))), root)


def _end(steps: object) -> Scan:
    while True:
        try:
            next(steps)  # type: ignore[call-overload]
        except StopIteration as end:
            found: Scan = end.value
            return found


def _names(found: Scan, root: Path) -> list[str]:
    return sorted(os.path.relpath(file.path, root) for file in found.files)


def test_what_the_system_and_programs_leave_behind_is_no_document(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".hidden", ".git/x", "node_modules/x.js", "~$report.docx", "film.mkv.part", "b.crdownload")

    assert look(tmp_path) == ["a.md"]


def test_the_users_rules_hold_below_their_folder_and_nowhere_else(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "notes/a.log", "notes/deep/b.log", "notes/a.md")
    rules(tmp_path / "notes", "*.log")

    assert look(tmp_path) == ["a.log", "notes/a.md"]


def test_a_deeper_file_has_the_last_word(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "keep/a.log", "keep/not/a.log")
    rules(tmp_path, "*.log")
    rules(tmp_path / "keep", "!*.log")
    rules(tmp_path / "keep" / "not", "a.*")

    assert look(tmp_path) == ["keep/a.log"]


def test_the_user_may_take_in_what_is_left_out_by_habit(tmp_path: Path) -> None:
    write(tmp_path, ".notes/a.md", ".other/a.md", "node_modules/readme.md")
    rules(tmp_path, "!.notes/", "!node_modules/")

    assert look(tmp_path) == [".notes/a.md", "node_modules/readme.md"]


def test_nothing_is_taken_in_again_below_a_folder_that_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "build/a.md", "build/keep/b.md")
    rules(tmp_path, "build/")
    rules(tmp_path / "build" / "keep", "!b.md")

    assert look(tmp_path) == []
    assert ignored_below(str(tmp_path), str(tmp_path / "build" / "keep" / "b.md"), is_folder=False)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("/top.md", ["b.md", "sub/top.md"]),
        ("sub/", ["b.md", "top.md"]),
        ("sub/**", ["b.md", "top.md"]),
        ("# a comment", ["b.md", "sub/top.md", "top.md"]),
        ("!", ["b.md", "sub/top.md", "top.md"]),
        ("[bt]*.md", []),
    ],
)
def test_rules_read_as_gits(tmp_path: Path, line: str, left: list[str]) -> None:
    write(tmp_path, "top.md", "b.md", "sub/top.md")
    rules(tmp_path, line)

    assert look(tmp_path) == left


@pytest.mark.parametrize("line", ["!", "Taxes [2024-2023]/", "[Draft-1]*"])
def test_one_line_that_cannot_be_understood_leaves_the_others_in_force(tmp_path: Path, line: str) -> None:
    write(tmp_path, "a.log", "b.md")
    rules(tmp_path, line, "*.log")

    assert look(tmp_path) == ["b.md"]


def test_rules_in_names_that_are_not_utf8(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path)
    for name in (b"caf\xe9.txt", b"other.txt"):
        with open(raw + b"/" + name, "wb") as stream:
            stream.write(b"x")
    (tmp_path / IGNORE_FILE).write_bytes(b"caf\xe9.txt\n")

    assert look(tmp_path) == ["other.txt"]


def test_the_first_rule_holds_also_after_a_byte_order_mark(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "b.md", "c.txt")
    (tmp_path / IGNORE_FILE).write_bytes(b"\xef\xbb\xbf*.log\r\n*.txt\r\n")

    assert look(tmp_path) == ["b.md"]


def test_changed_rules_are_read_again(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "b.md")
    rules(tmp_path, "*.log")
    assert look(tmp_path) == ["b.md"]

    rules(tmp_path, "*.md", "# longer")

    assert look(tmp_path) == ["a.log"]


def test_a_pipe_in_place_of_the_rules_is_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    os.mkfifo(tmp_path / IGNORE_FILE)

    assert look(tmp_path) == ["a.md"]


def test_a_look_at_one_place_sees_what_a_look_at_the_whole_root_would(tmp_path: Path) -> None:
    write(tmp_path, "sub/a.md", "sub/b.log", "sub/deep/c.log", "sub/deep/d.md", ".git/e.md", "other.md")
    rules(tmp_path, "*.log")

    assert look_below(tmp_path, "sub") == ["sub/a.md", "sub/deep/d.md"]
    assert look_below(tmp_path, "sub/deep") == ["sub/deep/d.md"]
    assert look_below(tmp_path, "sub/a.md") == ["sub/a.md"]
    assert look_below(tmp_path, "sub/b.log") == []
    assert look_below(tmp_path, ".git/e.md") == []
    assert look_below(tmp_path, "sub/nothing-there.md") == []


def test_a_look_at_one_place_leaves_out_what_was_removed_from_the_library(tmp_path: Path) -> None:
    write(tmp_path, "sub/a.md", "sub/b.md")
    root, sub, a = str(tmp_path), str(tmp_path / "sub"), str(tmp_path / "sub" / "a.md")

    assert _names(_end(scan_below(root, sub, Removed({a: ""}))), tmp_path) == ["sub/b.md"]
    assert _end(scan_below(root, a, Removed({sub: ""}))).files == ()


def test_links_are_noted_in_a_look_at_one_place(tmp_path: Path) -> None:
    write(tmp_path, "sub/a.md", "real.md")
    (tmp_path / "sub" / "link.md").symlink_to(tmp_path / "real.md")

    assert _end(scan_below(str(tmp_path), str(tmp_path / "sub"))).has_links
    assert _end(scan_below(str(tmp_path), str(tmp_path / "sub" / "link.md"))).has_links
    assert not _end(scan_below(str(tmp_path), str(tmp_path / "real.md"))).has_links


def test_where_case_does_not_matter_a_file_is_known_by_the_name_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "Lease.md")
    # As a file system does that takes no notice of case: every spelling leads to the file.
    (tmp_path / "lEASE.MD").hardlink_to(tmp_path / "Lease.md")
    monkeypatch.setattr(os, "listdir", lambda folder: ["Lease.md"])

    assert look_below(tmp_path, "Lease.md") == ["Lease.md"]
    assert look_below(tmp_path, "lEASE.MD") == []


def test_rules_of_a_folder_are_those_of_all_folders_above_it(tmp_path: Path) -> None:
    rules(tmp_path, "*.log")
    rules(tmp_path / "a" / "b", "*.tmp")

    found = rules_in(str(tmp_path), str(tmp_path / "a" / "b"))

    assert [folder for folder, _ in found.specs] == [str(tmp_path / "a" / "b"), str(tmp_path)]
    assert rules_in(str(tmp_path), str(tmp_path)) == IgnoreRules().within(str(tmp_path))
