"""Tests for engine.library.scanner."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.core import FoundFile
from engine.library.identities import identity_at
from engine.library.ignoring import IgnoreRules
from engine.library.removed import Removed, Renamed
from engine.library.scanner import Scan, content_hash, found_file, look_at, scan


def look(path: Path | str, *excluded: Path, at_each: Callable[[str], None] = lambda _: None) -> Scan:
    """`at_each` is told of each folder before it is entered."""
    looking = scan(str(path), Removed(dict.fromkeys(map(str, excluded), "")))
    while True:
        try:
            at_each(next(looking))
        except StopIteration as end:
            result: Scan = end.value
            return result


def names(found: Scan, folder: Path) -> list[str]:
    return [os.path.relpath(file.path, folder) for file in found.files]


def write(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)


def test_files_are_found_at_every_depth_with_size_and_time(tmp_path: Path) -> None:
    write(tmp_path / "b.md", tmp_path / "a" / "deep" / "c.txt")
    os.utime(tmp_path / "b.md", ns=(5, 1_700_000_000_123_456_789))

    found = look(tmp_path)

    assert FoundFile(str(tmp_path / "b.md"), 4, 1_700_000_000_123_456_789) in found.files
    assert names(found, tmp_path) == ["b.md", "a/deep/c.txt"]
    assert (found.absence, found.problems, found.is_folder) == ("", (), True)
    assert found.device == tmp_path.stat().st_dev


@pytest.mark.parametrize(("seconds", "kept_ns"), [(10_413_792_000, 2**63 - 2), (-10_413_792_000, 2 - 2**63)])
def test_dates_that_the_catalogue_has_no_room_for_are_as_far_off_as_it_tells(seconds: int, kept_ns: int) -> None:
    told = SimpleNamespace(st_size=4, st_mtime_ns=seconds * 10**9)
    assert found_file("/a.md", told) == FoundFile("/a.md", 4, kept_ns)  # type: ignore[arg-type]


def test_nesting_deeper_than_pythons_stack_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    depth = sys.getrecursionlimit() + 50
    monkeypatch.chdir(tmp_path)
    for _ in range(depth):
        os.mkdir("d")
        os.chdir("d")
    Path("leaf").touch()

    found = look(tmp_path)

    # Taken down again from inside: whoever tidies up after us may be recursive.
    Path("leaf").unlink()
    for _ in range(depth):
        os.chdir("..")
        os.rmdir("d")
    assert [os.path.relpath(file.path, tmp_path).count("d/") for file in found.files] == [depth]


def test_hidden_and_ignored_names_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path / ".hidden.md",
        tmp_path / ".git" / "config",
        tmp_path / ".venv" / "x.py",
        tmp_path / "node_modules" / "x.js",
        tmp_path / "src" / "__pycache__" / "x.pyc",
        tmp_path / "src" / "x.py",
    )

    assert names(look(tmp_path), tmp_path) == ["src/x.py"]


def test_a_root_is_taken_whatever_its_name(tmp_path: Path) -> None:
    write(tmp_path / ".notes" / "a.md", tmp_path / ".secret.md")

    assert len(look(tmp_path / ".notes").files) == 1
    only = look(tmp_path / ".secret.md")
    assert ([file.path for file in only.files], only.is_folder) == ([str(tmp_path / ".secret.md")], False)


def test_what_was_removed_from_the_library_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "a.md", tmp_path / "b.md", tmp_path / "sub" / "c.md")

    assert names(look(tmp_path, tmp_path / "a.md", tmp_path / "sub"), tmp_path) == ["b.md"]


def test_names_that_are_not_utf8_are_found(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    with open(raw, "wb") as stream:
        stream.write(b"au lait")

    (file,) = look(tmp_path).files

    assert os.fsencode(file.path) == raw
    assert look_at(file.path) == file


def test_circles_of_links_end_and_files_keep_their_own_names(tmp_path: Path) -> None:
    write(tmp_path / "z" / "real.md", tmp_path / "outside" / "linked.md")
    root = tmp_path / "z"
    (root / "a-circle").symlink_to(root)
    (root / "a-link.md").symlink_to(root / "real.md")
    (root / "shelf").symlink_to(tmp_path / "outside")
    (tmp_path / "outside" / "back").symlink_to(root)
    (root / "again").symlink_to(tmp_path / "outside")

    found = look(root)

    assert names(found, root) == ["real.md", "again/linked.md"]
    assert found.problems == ()


def test_a_link_to_a_drive_is_told_as_a_place_where_one_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "docs" / "a.md", tmp_path / "nas" / "b.md", tmp_path / "plain" / "c.md")
    for name in ("nas", "plain"):
        (tmp_path / "docs" / name).symlink_to(tmp_path / name)
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) == str(tmp_path / "nas"))

    found = look(tmp_path / "docs")

    assert names(found, tmp_path / "docs") == ["a.md", "nas/b.md", "plain/c.md"]
    assert found.mounts == (str(tmp_path / "docs" / "nas"),)


def test_links_to_nothing_or_to_themselves_are_listed(tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "self").symlink_to(tmp_path / "self")

    problems = look(tmp_path).problems

    assert [os.path.basename(problem.path) for problem in problems] == ["nowhere", "self"]
    assert {problem.reason for problem in problems} == {"This link leads nowhere."}
    assert all(problem.hides_files for problem in problems)


def test_pipes_sockets_and_devices_are_listed_and_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    (tmp_path / "null").symlink_to("/dev/null")

    found = look(tmp_path)

    assert found.files == ()
    assert [(os.path.basename(p.path), p.reason) for p in found.problems] == [
        ("pipe", "This is a named pipe, not a file."),
        ("socket", "This is a socket, not a file."),
        ("null", "This is a device, not a file."),
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_hides_its_files(tmp_path: Path) -> None:
    write(tmp_path / "closed" / "a.md", tmp_path / "b.md")
    (tmp_path / "closed").chmod(0)
    try:
        found = look(tmp_path)
    finally:
        (tmp_path / "closed").chmod(0o700)

    assert names(found, tmp_path) == ["b.md"]
    (problem,) = found.problems
    assert (problem.path, problem.hides_files) == (str(tmp_path / "closed"), True)
    assert "Permission denied" in problem.reason


def test_a_folder_that_cannot_be_listed_hides_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "broken" / "a.md", tmp_path / "b.md")
    scandir = os.scandir

    def failing(path: str) -> object:
        if path.endswith("broken"):
            raise OSError(5, "Input/output error")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    found = look(tmp_path)

    assert names(found, tmp_path) == ["b.md"]
    assert [(p.reason, p.hides_files) for p in found.problems] == [
        ("This folder cannot be read: Input/output error.", True)
    ]


def test_a_folder_that_goes_while_it_is_looked_at_hides_its_files(tmp_path: Path) -> None:
    write(tmp_path / "a" / "1.md", tmp_path / "b" / "2.md", tmp_path / "c" / "3.md")

    def go(at: str) -> None:
        if at.endswith("/b"):
            (tmp_path / "b").rename(tmp_path / "elsewhere")

    found = look(tmp_path, at_each=go)

    assert names(found, tmp_path) == ["a/1.md", "c/3.md"]
    assert [(p.path, p.hides_files) for p in found.problems] == [(str(tmp_path / "b"), True)]


def test_a_folder_that_goes_after_it_was_listed_hides_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "b" / "2.md", tmp_path / "b" / "3.md")
    rules_within = IgnoreRules.ignore

    def go(rules: IgnoreRules, path: str, is_folder: bool) -> bool:
        if path.endswith("2.md"):
            (tmp_path / "b").rename(tmp_path / "elsewhere")
        return rules_within(rules, path, is_folder)

    monkeypatch.setattr(IgnoreRules, "ignore", go)
    found = look(tmp_path)

    assert found.files == ()
    assert [(p.path, p.hides_files) for p in found.problems] == [(str(tmp_path / "b"), True)]


def test_a_file_that_goes_while_it_is_looked_at_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.md", tmp_path / "b.md")
    monkeypatch.setattr(IgnoreRules, "ignore", lambda *_: (tmp_path / "a.md").unlink(missing_ok=True))

    found = look(tmp_path)

    assert (names(found, tmp_path), found.problems) == (["b.md"], ())


def test_a_root_that_goes_while_it_is_looked_at_is_absent(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root / "a" / "1.md", root / "b" / "2.md")

    def go(at: str) -> None:
        if at.endswith("/b"):
            root.rename(tmp_path / "away")

    found = look(root, at_each=go)

    assert (found.files, found.device) == ((), None)
    assert "went away while it was looked at" in found.absence


def test_a_root_of_which_the_drive_goes_while_it_is_looked_at_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    write(root / "a" / "1.md", root / "b" / "2.md")
    stat = os.stat

    def of_the_drive_below(path: str, **options: bool) -> os.stat_result:
        found = stat(path, **options)
        if str(path) != str(root):
            return found
        return os.stat_result((*found[:2], found.st_dev + 1, *found[3:10]))

    def go(at: str) -> None:
        if at.endswith("/b"):
            (root / "b").rename(tmp_path / "away")
            monkeypatch.setattr(os, "stat", of_the_drive_below)

    found = look(root, at_each=go)
    assert (found.files, found.device) == ((), None)


def test_a_linked_file_that_is_saved_by_renaming_while_it_is_looked_at_is_there(tmp_path: Path) -> None:
    write(tmp_path / "a.md", tmp_path / "a.new")

    def save(_: str) -> None:
        (tmp_path / "a.new").rename(tmp_path / "a.md")

    found = look(tmp_path / "a.md", at_each=save)

    assert ([file.path for file in found.files], found.absence) == ([str(tmp_path / "a.md")], "")


def test_a_root_that_is_not_there_is_absent(tmp_path: Path) -> None:
    found = look(tmp_path / "unplugged")

    assert (found.files, found.device) == ((), None)
    assert "not there" in found.absence


def test_the_hash_tells_contents_apart(tmp_path: Path) -> None:
    for name, content in (("a", b"x" * 3_000_000), ("b", b"x" * 3_000_000), ("c", b"x" * 2_999_999 + b"y")):
        (tmp_path / name).write_bytes(content)

    a, b, c = (content_hash(str(tmp_path / name)) for name in "abc")

    assert a == b != c
    assert len(a) == 32


def test_looking_at_what_became_a_pipe_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="named pipe"):
        look_at(str(tmp_path / "pipe"))
    assert content_hash(str(tmp_path / "pipe")) == content_hash("/dev/null")


class WindowsEntry:
    """As Windows lists what is in a folder: without inodes and drives."""

    def __init__(self, entry: os.DirEntry[str]) -> None:
        self._entry, self.name, self.path = entry, entry.name, entry.path

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return self._entry.is_dir(follow_symlinks=follow_symlinks)

    def stat(self, *, follow_symlinks: bool) -> SimpleNamespace:
        found = self._entry.stat(follow_symlinks=follow_symlinks)
        told = {name: getattr(found, name) for name in ("st_mode", "st_size", "st_mtime_ns")}
        return SimpleNamespace(st_ino=0, st_dev=0, **told)


def test_where_folders_are_listed_without_inodes_each_thing_is_told_apart_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a" / "x.md", tmp_path / "b" / "y.md", tmp_path / "c.md", tmp_path / "was.md")
    was, now = str(tmp_path / "was.md"), str(tmp_path / "now.md")
    removed = Removed({was: identity_at(was)})
    os.rename(was, now)
    scandir = os.scandir

    @contextmanager
    def windows(path: str) -> Iterator[list[WindowsEntry]]:
        with scandir(path) as entries:
            yield [WindowsEntry(entry) for entry in entries]

    monkeypatch.setattr(os, "scandir", windows)
    looking, found = scan(str(tmp_path), removed), None
    while found is None:
        try:
            next(looking)
        except StopIteration as end:
            found = end.value

    assert names(found, tmp_path) == ["c.md", os.path.join("a", "x.md"), os.path.join("b", "y.md")]
    assert removed.renamed == {now: Renamed(was, is_gone=True)}
    assert (found.mounts, found.problems) == ((), ())
