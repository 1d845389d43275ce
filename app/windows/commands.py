"""What the command palette offers, read from the models when it is opened."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication

from app.widgets.figures import count_text
from app.windows.command_palette import Command

if TYPE_CHECKING:
    from app.models import AppModels
    from app.models.chat_list import Deleted
    from app.widgets.rail import Place
    from app.windows.main_window import MainWindow


def commands_of(window: MainWindow, models: AppModels | None) -> list[Command]:
    """Returns shortcuts, places, actions, then the chats."""
    commands = [Command(item.does, item.run, item.icon, item.keys) for item in window.shortcuts]
    places: tuple[tuple[Place, str, str], ...] = (
        ("every-file", _tr("Ask every file"), "table"),
        ("library", _tr("Go to Library"), "library"),
        ("memory", _tr("Go to Memory"), "memory"),
        ("models", _tr("Go to Models"), "models"),
    )
    commands += [Command(text, partial(window.go_to, place), icon) for place, text, icon in places]
    commands += [
        Command(_tr("Attach files to this chat…"), window.chat_actions.attach_files, "attach"),
        Command(_tr("Instructions and settings of this chat…"), window.chat_actions.open_manner, "manner"),
        Command(_tr("Add folder…"), window.adding.add_folder, "folder-plus"),
        Command(_tr("Add files…"), window.adding.add_files, "file"),
        Command(_tr("New collection…"), window.adding.new_collection, "library"),
        Command(_tr("Download a model…"), window.get_model, "models"),
        Command(_tr("Open a GGUF file…"), window.adding.open_model, "models"),
        Command(_tr("Export this chat…"), window.chat_actions.export_chat, "file-text"),
        Command(_tr("Import chats…"), window.chat_actions.import_chats, "file"),
        Command(_tr("Import a folder of chats…"), window.chat_actions.import_folder, "folder-plus"),
    ]
    if models is not None:
        if models.conversation.conversation_id is not None:
            commands.append(Command(_tr("Duplicate this chat"), window.chat_actions.duplicate, "copy"))
        if (deleted := models.chat_list.last_deleted) is not None:
            commands.append(Command(_restore_words(deleted), window.chat_actions.bring_back_chat, "chats"))
        if models.turn_deleting.can_undo:
            words = _tr("Restore the deleted question of this chat")
            commands.append(Command(words, window.chat_actions.bring_back_turn, "chats"))
        for name, text in (("light", _tr("Light theme")), ("dark", _tr("Dark theme")), ("system", _tr("System theme"))):
            commands.append(Command(text, partial(models.settings.change, theme=name), "sun"))
        commands += _chats(window, models)
    return commands


def _restore_words(deleted: Deleted) -> str:
    number = len(deleted.conversation_ids)
    if number > 1:
        return _tr("Restore %1 deleted chats").replace("%1", count_text(number))
    return _tr("Restore “%1”").replace("%1", deleted.title) if deleted.title else _tr("Restore the deleted chat")


def _chats(window: MainWindow, models: AppModels) -> list[Command]:
    # All chats, even while the list of chats is filtered by a search.
    open_chat, chats = window.chat_actions.open_chat, models.chat_list.all_chats()
    return [Command(chat.title, partial(open_chat, chat.conversation_id), "chats") for chat in chats]


def _tr(text: str) -> str:
    return QCoreApplication.translate("commands", text)
