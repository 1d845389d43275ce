"""What tests of the window share: a screenless Qt, an engine client without an engine, and chats in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# Before the first import of Qt, also when these tests run alone.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest
from pytestqt.qtbot import QtBot

from app import theme
from app.chats import ChatStore
from app.main import leave_clipboard
from tests.helpers.fake_engine_client import FakeEngineClient

# What has to happen may take longer than pytest-qt's five seconds where other tests run at the same time.
for _wait in (QtBot.waitSignal, QtBot.waitSignals, QtBot.waitUntil, QtBot.waitExposed):
    _wait.__kwdefaults__["timeout"] = 60_000


@pytest.fixture
def client(qapp) -> FakeEngineClient:
    return FakeEngineClient()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChatStore]:
    made = ChatStore(tmp_path / "chats.sqlite")
    yield made
    made.close()


@pytest.fixture
def large_text(qapp) -> Iterator[None]:
    """Text of twice its usual size."""
    theme.appearance().choose("light", 2.0)
    yield
    theme.appearance().choose("light")


@pytest.fixture(scope="session", autouse=True)
def nothing_is_copied_in_the_end(qapp) -> Iterator[None]:
    """What the clipboard holds outlives Python, and is none of its objects then, as where the window is closed."""
    yield
    leave_clipboard(qapp)
