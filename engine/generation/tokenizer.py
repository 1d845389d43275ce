"""Tokenises text and back as llama.cpp does, except for added spaces and for markers in documents.

Parts of a prompt are tokenised one by one. SentencePiece puts a space before each text, as if it were the beginning;
and tokens that a model file declares as user-defined are recognised anywhere, even in a document.
"""

from __future__ import annotations

import ctypes
import re
from itertools import pairwise
from typing import Any

import llama_cpp.llama_cpp as llama

# A character that is not part of any word: its byte is a token of its own, after the space that is put before it.
_LONE, _LONE_BYTE = "\x01", b"<0x01>"
# Bytes are among the first tokens; without them, llama.cpp ends the process at an unknown character.
_BYTES_WITHIN = 1024
# Markers of messages in templates, and those that some templates build from roles.
_MARK = re.compile(r"<[^<>\s]{1,40}>|\[[^\[\]\s]{1,40}\]")
_MARKS_OF_ROLES = tuple(f"<|{role}|>" for role in ("system", "user", "assistant", "developer", "tool", "end"))


class Tokenizer:
    """The tokenizer of one vocabulary, while its weights are loaded; on the thread that owns llama.cpp.

    `adds_space`: llama.cpp puts a space before the first word of a text, as SentencePiece does (word_spaces.py).
    """

    def __init__(self, vocab: Any, template: str) -> None:
        """Examines the vocabulary; `template` is the file's chat template, "" if there is none."""
        self._vocab = vocab
        # Tokens to put before a text that follows other text, and what in a text would be recognised as a marker.
        self._lone: list[int] = []
        self._marks: re.Pattern[str] | None = None
        kind = llama.llama_vocab_type(vocab)
        is_sentence_piece = kind == llama.LLAMA_VOCAB_TYPE_SPM
        if kind != llama.LLAMA_VOCAB_TYPE_NONE and not (is_sentence_piece and not self._has_bytes()):
            self._lone = self._lone_tokens() if is_sentence_piece else []
            self._marks = self._marks_of(template)
        self.adds_space = bool(self._lone)

    def tokens(self, text: str, parse_special: bool) -> list[int]:
        """Tokenises `text` without a beginning-of-text token, or a space that is not in it.

        Control tokens count as such only if `parse_special`. llama.cpp recognises user-defined ones, as which it also
        treats those of gpt-oss, in any text: their first characters are therefore tokenised separately.
        """
        if parse_special or self._marks is None:
            return self._within(text, parse_special)
        ends = [mark.start() + 1 for mark in self._marks.finditer(text)]
        pieces = (text[start:end] for start, end in pairwise((0, *ends, len(text))))
        return [token for one in pieces for token in self._within(one, parse_special)]

    def _within(self, text: str, parse_special: bool) -> list[int]:
        """Tokenises as if other text came before, so that no space is added."""
        if not text or not self._lone:
            return as_llama_reads(self._vocab, text, parse_special)
        tokens = as_llama_reads(self._vocab, f"{_LONE}{text}", parse_special)
        behind = len(self._lone)
        is_as_ever = tokens[:behind] == self._lone
        return tokens[behind:] if is_as_ever else as_llama_reads(self._vocab, text, parse_special)

    def _has_bytes(self) -> bool:
        first = range(min(llama.llama_vocab_n_tokens(self._vocab), _BYTES_WITHIN))
        return any(llama.llama_vocab_get_text(self._vocab, token) == _LONE_BYTE for token in first)

    def _lone_tokens(self) -> list[int]:
        """Returns the tokens of the lone character, if a space is put before it."""
        tokens = as_llama_reads(self._vocab, _LONE, False)
        return tokens if [piece(self._vocab, token) for token in tokens] == [b" ", _LONE.encode()] else []

    def _marks_of(self, template: str) -> re.Pattern[str] | None:
        written = {*_MARK.findall(template), *_MARKS_OF_ROLES}
        marks = sorted(mark for mark in written if any(map(self._is_mark, as_llama_reads(self._vocab, mark, False))))
        # A lookahead finds markers wherever they begin, even within one another.
        return re.compile(f"(?={'|'.join(map(re.escape, marks))})") if marks else None

    def _is_mark(self, token: int) -> bool:
        if not llama.llama_vocab_get_attr(self._vocab, token) & llama.LLAMA_TOKEN_ATTR_USER_DEFINED:
            return False
        return _MARK.fullmatch(piece(self._vocab, token, special=True).decode("utf-8", "replace")) is not None


def as_llama_reads(vocab: Any, text: str, parse_special: bool) -> list[int]:
    """Tokenises a whole text exactly as llama.cpp does, without a beginning-of-text token."""
    data = text.encode("utf-8", "replace")
    room = len(data) + 8
    buffer = (llama.llama_token * room)()
    count = llama.llama_tokenize(vocab, data, len(data), buffer, room, False, parse_special)
    if count < 0:
        buffer = (llama.llama_token * -count)()
        count = llama.llama_tokenize(vocab, data, len(data), buffer, -count, False, parse_special)
    return list(buffer[:count])


def piece(vocab: Any, token: int, special: bool = False) -> bytes:
    """Returns the bytes of a token; those of a control token only if `special`."""
    room = 64
    while True:
        buffer = ctypes.create_string_buffer(room)
        count = llama.llama_token_to_piece(vocab, token, buffer, room, 0, special)
        if count >= 0:
            return buffer.raw[:count]
        room = -count
