"""The words of RTF: its tokens as a tree of groups, and what decides how bytes are read and which groups are shown."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

# \fcharset: which Windows code page a font's bytes are in. 0 and 1 mean the document's own.
CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "big5", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
    254: "cp437", 255: "cp850",
}  # fmt: skip
DOCUMENT_CHARSETS = {"ansi": "cp1252", "mac": "mac_roman", "pc": "cp437", "pca": "cp850"}

SIGNS = {
    "tab": "\t", "line": "\n", "lbr": "\n", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’",
    "ldblquote": "“", "rdblquote": "”", "emspace": " ", "enspace": " ", "qmspace": " ", "zwj": "\u200d",
    "zwnj": "\u200c", "~": "\u00a0", "_": "-", "\\": "\\", "{": "{", "}": "}",
}  # fmt: skip

# Groups whose text is not part of the body: declarations, pictures, the code of fields, running heads.
SKIPPED = {
    "colortbl", "filetbl", "listtable", "listoverridetable", "revtbl", "rsidtbl", "generator", "pict", "objdata",
    "objclass", "objname", "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf",
    "fldinst", "bkmkstart", "bkmkend", "annotation", "atnid", "atnauthor", "xe", "tc", "txe", "rxe", "themedata",
    "datastore", "nonshppict", "nonesttables", "listtext", "pntext", "pn", "sp", "ftnsep", "ftnsepc", "ftncn",
    "aftnsep", "aftnsepc", "aftncn", "template", "private", "userprops",
}  # fmt: skip
# Groups that programs may ignore ("\*"), but that are read here.
KEPT = {"shpinst", "shptxt", "ud", "shppict", "nesttableprops"}

_TOKEN = re.compile(
    r"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,10})?[ ]?|\\'(?P<code>[0-9a-fA-F]{2})|\\(?P<symbol>.)"
    r"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+|\\",
    re.S,
)


class Word(NamedTuple):
    """A control word with its number, or a control symbol; a named tuple, because there are hundreds of thousands."""

    name: str
    number: int | None = None


# The content of a pair of braces: words, text as bytes, and groups (as lists).
Group = list[Any]


def groups(data: bytes) -> Group:
    """Returns the items outside of all braces: usually one group, the document. Unmatched braces are tolerated."""
    source = data.decode("latin-1")
    root: Group = []
    stack = [root]
    position = 0
    while (token := _TOKEN.match(source, position)) is not None:
        position = token.end()
        kind = token.lastgroup
        if kind in ("word", "number"):
            number = token["number"]
            word = Word(token["word"], None if number is None else int(number))
            if word.name == "bin":
                position += max(0, word.number or 0)
            else:
                stack[-1].append(word)
        elif kind == "text":
            stack[-1].append(token["text"].encode("latin-1"))
        elif kind == "code":
            stack[-1].append(bytes.fromhex(token["code"]))
        elif kind == "symbol":
            stack[-1].append(Word(token["symbol"]))
        elif token["brace"] == "{":
            inner: Group = []
            stack[-1].append(inner)
            stack.append(inner)
        elif token["brace"] == "}" and len(stack) > 1:
            stack.pop()
    return root


def destination(group: Group) -> tuple[str, bool]:
    """Returns a group's destination, and whether programs that do not know it should ignore it."""
    words = [item for item in group[:2] if isinstance(item, Word)]
    is_starred = bool(words) and words[0].name == "*"
    words = words[is_starred:]
    return (words[0].name if words else ""), is_starred
