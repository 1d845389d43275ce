"""Tests for app.private, and that chats are so."""

from __future__ import annotations

import os
import stat
from contextlib import closing

import pytest

from app.chats import ChatStore
from app.private import keep_private, private_folder


@pytest.fixture(autouse=True)
def usual_umask():
    """What is made is for everybody to read, as most systems have it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(*paths) -> set[str]:
    return {oct(stat.S_IMODE(path.stat().st_mode)) for path in paths}


def test_nobody_else_reads_chats_nor_what_sqlite_keeps_beside_them(tmp_path):
    with closing(ChatStore(tmp_path / "chats.sqlite")) as store:
        store.create_conversation("Salary")
        parts = [tmp_path / f"chats.sqlite{suffix}" for suffix in ("", "-wal", "-shm")]
        assert modes(*parts) == {"0o600"}


def test_chats_of_before_are_taken_from_others_also_those_that_were_set_aside(tmp_path):
    kept = [tmp_path / "chats.sqlite", tmp_path / "chats.set-aside-20260301-101500.sqlite"]
    for file in kept:
        with closing(ChatStore(file)) as store:
            store.create_conversation("Salary")
        file.chmod(0o644)
    (tmp_path / "models").mkdir()
    with closing(ChatStore(kept[0])) as store:
        assert modes(*kept) == {"0o600"}
        assert [one.title for one in store.conversations()] == ["Salary"]
    assert modes(tmp_path / "models") == {"0o755"}


def test_chats_in_memory_make_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(ChatStore.in_memory("The disk is full.")) as store:
        store.create_conversation("Salary")
    assert not (tmp_path / ":memory:").exists()


def test_a_folder_that_is_made_private_keeps_what_its_owner_may(tmp_path):
    private_folder(tmp_path / "a" / "b")
    assert modes(tmp_path / "a") == {"0o755"}
    (tmp_path / "read-only").mkdir(mode=0o555)
    private_folder(tmp_path / "read-only")
    assert modes(tmp_path / "a" / "b", tmp_path / "read-only") == {"0o700", "0o500"}


def test_a_link_leads_where_somebody_has_chosen_and_a_file_that_is_gone_is_none(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    private_folder(tmp_path / "link")
    keep_private(tmp_path / "gone")
    assert modes(tmp_path / "shared") == {"0o755"}
