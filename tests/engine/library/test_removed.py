"""Tests for engine.library.removed and engine.library.identities."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.library import identities
from engine.library.identities import MOUNT, Identity, identity_at
from engine.library.removed import Removed, Renamed


def removed(*paths: Path) -> Removed:
    return Removed({str(path): identity_at(str(path)) for path in paths})


def takes(one: Removed, path: Path) -> bool:
    return one.takes(str(path), os.lstat(path))


@pytest.mark.parametrize("is_folder", [True, False])
def test_what_was_renamed_is_known_again(tmp_path: Path, tells_when: bool, is_folder: bool) -> None:
    was, now, other = tmp_path / "was", tmp_path / "now", tmp_path / "other"
    for path in (was, other):
        path.mkdir() if is_folder else path.write_text("text")
    one = removed(was)
    was.rename(now)

    assert takes(one, now)
    assert not takes(one, other)
    assert one.renamed == {str(now): Renamed(str(was), is_gone=True)}


def test_what_gets_the_inode_of_what_was_removed_is_something_new(tmp_path: Path, tells_when: bool) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.write_text("text")
    for path in (folder, file):
        found = os.lstat(path)
        older = Identity.of(str(path), found)
        mark = older.mark.replace(older.mark.rpartition(" ")[2], "5")
        one = Removed({str(tmp_path / "was"): str(Identity(older.device, older.inode, mark))})
        assert not takes(one, path)
        assert one.renamed == {}


def test_a_file_of_the_inode_with_another_size_is_something_new_where_nothing_tells_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identities, "made_at_ns", lambda path: 0)
    was, now = tmp_path / "was", tmp_path / "now"
    was.write_text("text")
    os.utime(was, ns=(5, 5))
    one = removed(was)
    was.rename(now)
    now.write_text("longer")
    os.utime(now, ns=(5, 5))
    assert not takes(one, now)


def test_what_was_edited_and_renamed_is_known_again_where_it_is_told_when_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identities, "made_at_ns", lambda path: 7)
    was, now = tmp_path / "was", tmp_path / "now"
    was.mkdir()
    one = removed(was)
    (was / "new.md").write_text("text")
    os.utime(was, ns=(5, 5))
    was.rename(now)
    assert takes(one, now)


def test_another_name_of_a_file_that_is_still_there_is_no_new_name(tmp_path: Path, tells_when: bool) -> None:
    was, also = tmp_path / "was.md", tmp_path / "also.md"
    was.write_text("text")
    also.hardlink_to(was)
    assert not takes(removed(was), also)


def test_what_was_replaced_is_out_under_both_names(tmp_path: Path, tells_when: bool) -> None:
    was, now = tmp_path / "was", tmp_path / "now"
    was.mkdir()
    one = removed(was)
    was.rename(now)
    was.mkdir()

    assert takes(one, was)
    assert takes(one, now)
    assert one.renamed == {str(now): Renamed(str(was), is_gone=False)}


def test_what_is_in_the_library_under_its_new_name_is_wanted(tmp_path: Path, tells_when: bool) -> None:
    was, now = tmp_path / "was", tmp_path / "now"
    was.mkdir()
    one = Removed({str(was): identity_at(str(was))}, lambda path: path == str(now))
    was.rename(now)
    assert not takes(one, now)


def test_a_drive_by_another_number_is_the_same_where_it_is_told_when_something_was_made(
    tmp_path: Path, tells_when: bool
) -> None:
    was, now = tmp_path / "was", tmp_path / "now"
    now.mkdir()
    known = Identity.of(str(now), os.lstat(now))
    one = Removed({str(was): f"{known.device + 1} {known.inode} {known.mark.replace(' on ', ' on 1')}"})

    assert takes(one, now) is tells_when
    # What was removed may come back with its own drive.
    assert one.renamed == ({str(now): Renamed(str(was), is_gone=False)} if tells_when else {})


@pytest.mark.parametrize("sees_all", [True, False])
def test_what_lies_at_a_path_is_news_where_it_was_not_known(tmp_path: Path, tells_when: bool, sees_all: bool) -> None:
    was, other = tmp_path / "was", tmp_path / "other"
    was.write_text("text")
    other.write_text("other")
    known, others = identity_at(str(was)), identity_at(str(other))

    def news(noted: str) -> dict[str, str]:
        one = Removed({str(was): noted}, sees_all=sees_all)
        assert one.takes_above(str(tmp_path), str(was / "below.md"))
        return one.here

    assert news(known) == {}
    assert news("") == {str(was): known}
    # Only a look at all meets what lay there before, wherever it is now.
    assert news(others) == ({str(was): known} if sees_all else {})
    assert news(MOUNT) == {}


def test_a_folder_above_is_asked_for_up_to_the_root(tmp_path: Path, tells_when: bool) -> None:
    root, was = tmp_path / "root", tmp_path / "root" / "was"
    (was / "sub").mkdir(parents=True)
    one = removed(was, root)
    was.rename(root / "now")

    assert one.takes_above(str(root), str(root / "now" / "sub" / "a.md"))
    assert not one.takes_above(str(root), str(root / "b.md"))


def test_where_a_drive_is_mounted_nothing_is_known_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: True)
    assert identity_at(str(tmp_path)) == MOUNT
    assert Identity.read(MOUNT) is Identity.read("") is None


def test_when_something_was_made_is_told_or_nothing_is(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("text")
    made_ns = identities.made_at_ns(str(path))
    path.rename(tmp_path / "b.md")
    (tmp_path / "b.md").write_text("other")

    assert identities.made_at_ns(str(tmp_path / "b.md")) == made_ns
    assert identities.made_at_ns(str(path)) == 0


def test_without_such_a_call_of_the_system_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "_libc", lambda: None)
    assert identities.made_at_ns(str(tmp_path)) == 0
