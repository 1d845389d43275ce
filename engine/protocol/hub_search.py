"""Requests that search the hub by words, which happens only when the user asks for it."""

from __future__ import annotations

from engine.protocol.message import Message, Method


class HubWords(Message):
    """Words to search for; each of them must be in the name of a repository."""

    words: str


class HubRepository(Message):
    """A repository (OWNER/NAME) with models that can be downloaded; None is what the hub does not report.

    One that `is_gated` is only for users with an account who accepted its licence, so not for us.
    """

    name: str
    downloads: int | None = None
    likes: int | None = None
    is_gated: bool = False


class HubRepositories(Message):
    """What was found, the most downloaded first; never empty."""

    repositories: tuple[HubRepository, ...]


MODELS_SEARCH = Method("models.search", HubWords, HubRepositories)
