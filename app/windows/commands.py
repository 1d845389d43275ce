"""What the command palette offers, and the words for a finished job: read from the models when they are asked for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication

from app.widgets.figures import count_text
from app.windows.command_palette import Command
from engine.protocol import IndexFinished

if TYPE_CHECKING:
    from app.models import AppModels
    from app.widgets.rail import Place
    from app.windows.main_window import MainWindow


def commands_of(window: MainWindow, models: AppModels | None) -> list[Command]:
    """Shortcuts, places, things to do, then the chats."""
    commands = [Command(item.does, item.run, item.icon, item.keys) for item in window.shortcuts]
    places: tuple[tuple[Place, str], ...] = (
        ("library", _tr("Go to Library")),
        ("memory", _tr("Go to Memory")),
        ("models", _tr("Go to Models")),
    )
    commands += [Command(text, partial(window.go_to, place), place) for place, text in places]
    commands += [
        Command(_tr("Add folder…"), window.add_folder, "folder-plus"),
        Command(_tr("Add files…"), window.add_files, "file"),
        Command(_tr("Open a GGUF file…"), window.open_model, "models"),
        Command(_tr("Export this chat as Markdown…"), window.export_chat, "file-text"),
    ]
    if models is not None:
        for name, text in (("light", _tr("Light theme")), ("dark", _tr("Dark theme")), ("system", _tr("System theme"))):
            commands.append(Command(text, partial(models.settings.change, theme=name), "sun"))
        commands += _chats(window, models)
    return commands


def job_sentence(finished: object) -> tuple[str, int]:
    """What an indexing job did, and how many files it could not index."""
    assert isinstance(finished, IndexFinished)
    num_problems = len(finished.skipped) + len(finished.failed)
    words = _tr("%1 files were indexed, %2 were not.")
    return words.replace("%1", count_text(finished.indexed)).replace("%2", count_text(num_problems)), num_problems


def _chats(window: MainWindow, models: AppModels) -> list[Command]:
    chats = models.chat_list
    rows = (chats.index(row) for row in range(chats.rowCount()))
    return [
        Command(str(row.data(chats.TITLE_ROLE)), partial(window.open_chat, str(row.data(chats.ID_ROLE))), "chats")
        for row in rows
    ]


def _tr(text: str) -> str:
    return QCoreApplication.translate("commands", text)
