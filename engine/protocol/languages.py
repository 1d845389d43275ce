"""The request that reports whether the embedding model knows the language of the library's texts."""

from __future__ import annotations

from engine.protocol.message import Message, Method, Nothing


class LanguageReply(Message):
    """`language` is the code of the one that most texts are in, "" where that is English or cannot be told.

    It is "mul" where they are in several others. `knows_english_only`: the embedding model in use does, and the library
    moves to no other. `offered_bytes` is about what would be fetched of one that knows many.
    """

    language: str = ""
    knows_english_only: bool = False
    offered_bytes: int = 0


LIBRARY_LANGUAGE = Method("library.language", Nothing, LanguageReply)
