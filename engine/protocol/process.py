"""Requests to the engine as a process: ping, settings, and shutdown."""

from __future__ import annotations

from typing import Any

from engine.protocol.message import Message, Method, Nothing


class Pong(Message):
    """`phase` is the long phase that the engine is in, "" if there is none."""

    phase: str = ""


class SettingsReply(Message):
    """The engine's settings as nested tables; the same shape as `engine.toml`.

    `problem` says in a sentence which part of that file is not used; "" if all of it is. `pending` says which changes
    take effect only after a restart; "" if none does.
    """

    settings: dict[str, Any]
    problem: str = ""
    pending: str = ""


class SetSettings(Message):
    """Changes by dotted name: `{"generation.temperature": 0.7}`. All are applied, or none."""

    changes: dict[str, Any]


class ServerState(Message):
    """Where other applications can ask Ragdoll ("http://127.0.0.1:4411/v1"), "" if they cannot; `problem` says why.

    Both are "" if the API is switched off in the settings.
    """

    address: str = ""
    problem: str = ""


PING = Method("ping", Nothing, Pong)
SHUTDOWN = Method("shutdown", Nothing, Nothing)
SETTINGS_GET = Method("settings.get", Nothing, SettingsReply)
SETTINGS_SET = Method("settings.set", SetSettings, SettingsReply, is_repeatable=True)
SERVER = Method("server.state", Nothing, ServerState)
