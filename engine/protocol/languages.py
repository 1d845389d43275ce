"""The request that reports whether the embedding model knows the language of the library's texts."""

from __future__ import annotations

from engine.protocol.message import Message, Method, Nothing


class LanguageReply(Message):
    """`language` is the code of the language of most texts, "" if that is English or unknown.

    It is "mul" if they are in several others. `knows_english_only`: that is so of the embedding model in use, and the
    library is not moving to another one. `offered_bytes` is about the download size of a multilingual one.
    """

    language: str = ""
    knows_english_only: bool = False
    offered_bytes: int = 0


LIBRARY_LANGUAGE = Method("library.language", Nothing, LanguageReply)
