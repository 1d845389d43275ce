"""Bytes of any encoding become valid Unicode: no lone surrogates, no NULs, lines that end in one newline."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from engine.library.parsers.charsets import codecs_of, decoded

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_JAPANESE_SHIFTS = (b"\x1b$B", b"\x1b$@")
_CONTROLS = bytes(set(range(1, 32)) - {*b"\t\n\r\f\b\x1b"}) + b"\x7f"
# A killed program may leave a zero, or a run of them, in its log; binary data has zeros everywhere.
_ZEROS = re.compile(rb"\0+")
_TEXT_WITH_A_ZERO, _BYTES_A_ZERO = 512, 8192
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_NEWLINE = re.compile(r"\r\n?|\x0b|\x85|\u2028")
# Encodings of files without a byte-order mark, the most usual first; without this list, guesses include EBCDIC.
_USUAL = (
    "cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "gb18030", "cp932", "cp949", "big5", "euc_jp",
    "iso2022_jp", "cp1254", "cp1255", "cp1256", "cp874",
)  # fmt: skip
_CODEPAGES = {65001: "utf-8", 1200: "utf-16-le", 10000: "mac_roman", 936: "gbk", 950: "big5", 1361: "johab"}
_COHERENCE_TIE = 0.03
_WIDE_SHARE = 0.4
_SAMPLE_BYTES = 64 * 2**10
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
# How much text before the first such byte to use: its words tell the language.
_BEFORE_BYTES = 8 * 2**10
# A sample may end within a character.
_LONGEST_CHARACTER_BYTES = 4


def decode(data: bytes, declared: str = "") -> str:
    """Decodes a file; `declared` is an encoding that the file itself names, tried before guessing."""
    return clean(decoded(data, encoding_of(data, declared), "replace"))


def clean(text: str) -> str:
    """Removes characters that no font shows and no database stores; form feeds stay, because they end paragraphs."""
    return _UNPRINTABLE.sub("", _NEWLINE.sub("\n", text))


def encoding_of(data: bytes, declared: str = "") -> str:
    """Returns how to decode the data: by byte-order mark, zeros, valid UTF-8, declaration, statistics."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return encoding
    wide = _wide_encoding(data)
    if wide:
        return wide
    if any(shift in data[:_SAMPLE_BYTES] for shift in _JAPANESE_SHIFTS):
        return "iso2022_jp"
    if _is_utf8(data):
        return "utf-8"
    fitting = (codec for codec in codecs_of(declared, data) if _decodes(data, codec))
    return next(fitting, "") or _guessed(_telling(data))


def is_binary(head: bytes) -> bool:
    """Returns whether the beginning of a file is no text in any encoding."""
    if any(head.startswith(mark) for mark, _ in _BYTE_ORDER_MARKS) or _wide_encoding(head):
        return False
    zeros = head.count(0)
    num_characters = len(head) - zeros
    if zeros and len(_ZEROS.findall(head)) > max(num_characters >= _TEXT_WITH_A_ZERO, num_characters // _BYTES_A_ZERO):
        return True
    return sum(head.count(control) for control in _CONTROLS) * 20 > num_characters


def sample_text(head: bytes) -> str:
    """Decodes the beginning of a text well enough to look for ASCII marks in it."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return head.decode(encoding, errors="replace")
    return head.decode(_wide_encoding(head) or "utf-8", errors="replace")


def _wide_encoding(data: bytes) -> str:
    """Returns which UTF-16 without a byte-order mark it is, by zeros in every other byte; "" if it is none."""
    sample = data[: min(len(data), _SAMPLE_BYTES) // 2 * 2]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    half = max(1, len(sample) // 2)
    encoding = "utf-16-le" if even == 0 else "utf-16-be"
    if (even and odd) or max(even, odd) < _WIDE_SHARE * half:
        return ""
    # 16-bit numbers in a binary file look the same, but do not decode to letters.
    return "" if _UNPRINTABLE.search(sample.decode(encoding, errors="replace")) else encoding


def _is_utf8(data: bytes) -> bool:
    """Returns whether the data is UTF-8, or nearly: a bad byte in a long text does not make it Latin-1."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        sample = _telling(data).decode("utf-8", errors="replace")
        faults = sample.count("\ufffd")
        # In a sample that is plain ASCII, nothing tells UTF-8 from others.
        return faults * 20 < sum(1 for character in sample if character > "\x7f")
    return True


def _decodes(data: bytes, codec: str) -> bool:
    try:
        decoded(data[: -_LONGEST_CHARACTER_BYTES or None], codec)
    except (LookupError, UnicodeError):
        return False
    return True


def _telling(data: bytes) -> bytes:
    """Returns a sample: the beginning, or the surroundings of the first byte that is not ASCII."""
    other = _NOT_ASCII.search(data)
    start = max(0, other.start() - _BEFORE_BYTES) if other and other.start() >= _SAMPLE_BYTES else 0
    return data[start : start + _SAMPLE_BYTES]


def _guessed(sample: bytes) -> str:
    """Guesses by the statistics of languages; of encodings that fit equally well, returns the most usual one."""
    matches = list(from_bytes(sample, cp_isolation=list(_USUAL)))
    if not matches:
        return _USUAL[0]
    best = matches[0]
    ties = {
        match.encoding
        for match in matches
        if match.chaos <= best.chaos and match.coherence >= best.coherence - _COHERENCE_TIE
    }
    return next(encoding for encoding in _USUAL if encoding in ties)


def codepage(number: int) -> str:
    """Returns the codec of a Windows code page; cp1252 if Python has none."""
    name = _CODEPAGES.get(number, f"cp{number}")
    try:
        codecs.lookup(name)
    except LookupError:
        return "cp1252"
    return name
