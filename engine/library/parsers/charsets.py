"""Character sets by the names that mails and pages give them, taken as browsers take them (WHATWG's Encoding Standard).

Texts declared as "gb2312" or "shift_jis" are mostly in the larger set that Windows has under that name.
"""

from __future__ import annotations

import codecs
import re

# Names that Python does not know.
_LABELS = {
    "iso-8859-8-i": "iso8859-8", "iso-8859-8-e": "iso8859-8", "unicode-1-1-utf-8": "utf-8", "windows-874": "cp874",
    "windows-932": "cp932", "windows-936": "gbk", "windows-949": "cp949", "x-gbk": "gbk", "x-sjis": "shift_jis",
    "x-euc-jp": "euc_jp",
}  # fmt: skip
_MEANT = {
    "gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs", "euc_kr": "cp949", "shift_jis": "cp932",
    "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
}  # fmt: skip
# ISO 8859-2 has only control characters there, so the text is in cp1250, which differs in some letters as well.
_WINDOWS_ONLY = re.compile(rb"[\x80-\x9f]")
_SHIFT = re.compile(rb"\x1b(\$[@B]|\([BIJ])")
_PAIR = re.compile(rb"[\x21-\x7e]{2}")


def codecs_of(declared: str, data: bytes) -> tuple[str, ...]:
    """Returns Python's codecs for the declared character set of `data`, the likeliest first; none if it is unknown."""
    label = declared.strip("\"' ").lower()
    try:
        name = codecs.lookup(_LABELS.get(label, label)).name
    except (LookupError, ValueError):
        return ()
    meant = "cp1250" if name == "iso8859-2" and _WINDOWS_ONLY.search(data) else _MEANT.get(name, name)
    return tuple(dict.fromkeys((meant, name)))


def decoded(data: bytes, codec: str, errors: str = "strict") -> str:
    """Decodes as `bytes.decode`; in ISO-2022-JP also the signs that Windows adds."""
    if codec != "iso2022_jp":
        return data.decode(codec, errors)
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return _japanese(data, errors)


def _japanese(data: bytes, errors: str) -> str:
    """Decodes ISO-2022-JP with its double-byte parts as cp932, which has more signs, at other positions."""
    first, *rest = _SHIFT.split(data)
    texts = [first.decode("ascii", errors)]
    for shift, part in zip(rest[::2], rest[1::2], strict=True):
        if shift.startswith(b"$"):
            texts.append(_PAIR.sub(_as_windows, part).decode("cp932", errors))
        elif shift == b"(I":
            texts.append(bytes(sign | 0x80 if 0x21 <= sign <= 0x5F else sign for sign in part).decode("cp932", errors))
        else:
            texts.append(part.decode("ascii", errors))
    return "".join(texts)


def _as_windows(pair: re.Match[bytes]) -> bytes:
    row, column = pair.group()
    lead = (row - 0x21) // 2 + 0x81
    trail = column + (0x7E if row % 2 == 0 else 0x20 if column >= 0x60 else 0x1F)
    return bytes((lead if lead < 0xA0 else lead + 0x40, trail))
