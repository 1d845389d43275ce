"""The window with its models, an engine client without an engine, and chats in the test's folder."""

from __future__ import annotations

import pytest

from app import theme
from app.chats import ChatStore
from app.models import AppModels
from app.settings import SettingsStore
from app.windows.main_window import MainWindow


@pytest.fixture
def models(client, tmp_path):
    store = ChatStore(tmp_path / "chats.sqlite")
    made = AppModels(client, store, SettingsStore(tmp_path / "window.toml"), None, tmp_path / "pasted")
    yield made
    made.close()
    store.close()


@pytest.fixture
def window(qtbot, models):
    made = MainWindow()
    qtbot.addWidget(made)
    made.attach(models)
    made.show()
    qtbot.waitExposed(made)
    yield made
    theme.appearance().choose("light")
