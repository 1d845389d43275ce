"""Chats on disk: conversations and their turns in SQLite, written while answers arrive; nothing is ever overwritten."""

from __future__ import annotations

from app.chats.copies import WholeChat
from app.chats.export import markdown_of
from app.chats.presets import PresetStore
from app.chats.records import INTERRUPTED, Conversation, Preset, Run, RunFile, Turn, TurnRecordState
from app.chats.runs import RunStore
from app.chats.store import ChatStore

__all__ = [
    "INTERRUPTED",
    "ChatStore",
    "Conversation",
    "Preset",
    "PresetStore",
    "Run",
    "RunFile",
    "RunStore",
    "Turn",
    "TurnRecordState",
    "WholeChat",
    "markdown_of",
]
