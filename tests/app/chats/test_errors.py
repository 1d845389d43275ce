"""Tests for app.chats.errors: what is told of the disk can be told in every language of the window."""

from __future__ import annotations

import errno
import pkgutil
import sqlite3
import xml.etree.ElementTree as ET
from dataclasses import astuple
from importlib import import_module

import pytest

import resources
from app import chats
from app.chats.errors import Words, told


@pytest.mark.parametrize("language", ["zh_CN"])
def test_whatever_the_disk_refuses_is_told_in_the_language_of_the_window(language: str) -> None:
    modules = [import_module(f"app.chats.{module.name}") for module in pkgutil.iter_modules(chats.__path__)]
    told = {
        text
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, Words)
        for text in astuple(kind)
    }
    contexts = ET.parse(resources.path(f"translations/ragdoll_{language}.ts")).getroot().iter("context")
    (known,) = (context for context in contexts if context.findtext("name") == "chats")
    translated = {one.findtext("source") for one in known.iter("message") if one.findtext("translation")}
    assert told
    assert told - translated == set()


FULL, PROTECTED = "The disk is full, so this chat cannot be saved.", "The chats are write-protected, so this chat"
IN_USE = "The chats cannot be used just now"


@pytest.mark.parametrize(
    ("number", "begin"),
    [
        (errno.ENOSPC, FULL),
        (errno.EDQUOT, FULL),
        (errno.EACCES, PROTECTED),
        (errno.EPERM, PROTECTED),
        (errno.EROFS, PROTECTED),
        (errno.EIO, IN_USE),
        (errno.ENOTDIR, IN_USE),
    ],
)
def test_an_error_of_the_disk_is_known_by_its_number_and_not_by_words_in_a_path(number: int, begin: str) -> None:
    error = OSError(number, "Some words", "/home/a/full/readonly/chats.sqlite")
    assert told(error).sentence.startswith(begin)


@pytest.mark.parametrize(("number", "begin"), [(5, PROTECTED), (32, IN_USE), (33, IN_USE)])
def test_a_file_in_use_on_windows_is_not_write_protected(number: int, begin: str) -> None:
    error = OSError(errno.EACCES, "Some words", "chats.sqlite")
    error.winerror = number  # type: ignore[attr-defined, unused-ignore]  # only on Windows
    assert told(error).sentence.startswith(begin)


def test_an_error_of_sqlite_is_known_by_its_code() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE full_readonly (x)")
    connection.execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.OperationalError) as raised:
        connection.execute("INSERT INTO full_readonly VALUES (1)")
    assert told(raised.value).sentence.startswith(PROTECTED)
    with pytest.raises(sqlite3.OperationalError) as raised:
        connection.execute("SELECT * FROM full_of_readonly")
    assert told(raised.value).sentence.startswith("The chats cannot be used just now")
    connection.close()
