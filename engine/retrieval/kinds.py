"""Kinds: which formats people mean by a word such as "spreadsheets", in the languages we recognise.

The command line's `--type` and the words of questions share one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.errors import BadRequest

_SPREADSHEETS = ("xlsx", "xls", "ods", "table", "csv", "tsv")
_PRESENTATIONS = ("pptx", "ppt", "odp")
_WORD = ("docx", "doc", "odt", "rtf")
_MAILS = ("mail", "mailbox", "msg", "eml", "mbox", "email")
_BOOKS = ("epub",)
_WEB = ("html",)

# The formats (as in Document.format) of each kind; the key is shown to users.
FORMATS_OF_KIND: dict[str, tuple[str, ...]] = {
    "PDF files": ("pdf",),
    "spreadsheets": _SPREADSHEETS,
    "presentations": _PRESENTATIONS,
    "Word documents": _WORD,
    "e-mails": _MAILS,
    "e-books": _BOOKS,
    "web pages": _WEB,
    "Markdown files": ("markdown",),
}

# Plurals only: "the spreadsheet" means a particular one, and we do not know which.
KIND_OF_WORD: dict[str, str] = {
    word: kind
    for kind, words in {
        "PDF files": (
            "pdfs", "pdf files", "pdf documents", "pdf-dateien", "pdf dateien", "pdf-dokumenten", "pdf-dokumente",
            "archivos pdf", "documentos pdf", "ficheros pdf",
        ),
        "spreadsheets": (
            "spreadsheets", "excel files", "excel sheets", "csv files", "excel-dateien", "excel-tabellen",
            "tabellenkalkulationen", "hojas de cálculo", "hojas de calculo", "archivos excel", "archivos de excel",
        ),
        "presentations": (
            "presentations", "slides", "slide decks", "powerpoints", "powerpoint files", "präsentationen", "folien",
            "presentaciones", "diapositivas",
        ),
        "Word documents": (
            "word documents", "word files", "word-dokumenten", "word-dokumente", "word-dateien", "documentos word",
            "documentos de word", "archivos word",
        ),
        "e-mails": ("emails", "e-mails", "mails", "correos", "correos electrónicos", "correos electronicos"),
        "e-books": ("ebooks", "e-books", "epubs", "epub files", "libros electrónicos", "libros electronicos"),
        "web pages": ("web pages", "html files", "webseiten", "html-dateien", "páginas web", "paginas web"),
        "Markdown files": ("markdown files", "markdown-dateien", "archivos markdown"),
    }.items()
    for word in words
}  # fmt: skip


def formats_named(words: Iterable[str], family_of_ending: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the formats that words mean: "pdf", ".pdf" and "PDFs" mean one, "spreadsheets" several.

    `family_of_ending` maps endings of file names (".py") to parsers.

    Raises:
        BadRequest: A word is not a kind of files, a format or an ending.
    """
    plain = (word.strip().casefold().lstrip(".") for word in words)
    return tuple(dict.fromkeys(format_ for word in plain for format_ in _formats(word, family_of_ending)))


def _formats(word: str, family_of_ending: Mapping[str, str]) -> tuple[str, ...]:
    kind = KIND_OF_WORD.get(word) or KIND_OF_WORD.get(f"{word}s")
    if kind is not None:
        return FORMATS_OF_KIND[kind]
    if word in _FORMATS_OF_WORD:
        return _FORMATS_OF_WORD[word]
    if (family := family_of_ending.get(f".{word}")) is not None:
        return (_FORMAT_OF_FAMILY.get(family, family),)
    if word in _FORMATS:
        return (word,)
    raise BadRequest(
        f"There is no file type {word!r}.",
        f"There are {', '.join(FORMATS_OF_KIND)}, {', '.join(_OTHER_FORMATS)}, and the endings of file names.",
    )


_OTHER_FORMATS = ("archive", "code", "iwork", "json", "notebook", "org", "picture", "rst", "tex", "text", "xml", "yaml")
_FORMATS = {*_OTHER_FORMATS, *(format_ for formats in FORMATS_OF_KIND.values() for format_ in formats)}
# Parsers whose names differ from the format.
_FORMAT_OF_FAMILY = {"ipynb": "notebook", "json_lines": "json", "lines": "text"}
# Endings of formats that are detected by content, and other names of formats.
_FORMATS_OF_WORD = {
    **dict.fromkeys(("docm", "dotx", "dotm"), ("docx",)),
    "dot": ("doc",),
    "ott": ("odt",),
    **dict.fromkeys(("pptm", "ppsx", "ppsm", "potx", "potm"), ("pptx",)),
    **dict.fromkeys(("pps", "pot"), ("ppt",)),
    "otp": ("odp",),
    **dict.fromkeys(("odg", "otg"), ("odg",)),
    **dict.fromkeys(("xlsm", "xlsb", "xltx", "xltm"), ("xlsx",)),
    "xlt": ("xls",),
    "ots": ("ods",),
    "txt": ("text",),
    "msg": ("mail",),
    **dict.fromkeys(("mbox", "mailbox"), ("mailbox", "mail")),
    **dict.fromkeys(("zip", "tar", "gz", "tgz", "bz2", "xz"), ("archive",)),
    **dict.fromkeys(("png", "jpg", "jpeg", "tif", "tiff", "gif", "webp", "bmp", "picture"), ("picture",)),
    **dict.fromkeys(("avif", "jp2", "svg"), ("picture",)),
    "word": _WORD,
    "excel": _SPREADSHEETS,
    "powerpoint": _PRESENTATIONS,
    "ipynb": ("notebook",),
}
