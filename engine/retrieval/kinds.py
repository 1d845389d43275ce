"""Kinds: which formats people mean by a word such as "spreadsheets", in the languages we recognise.

One table for the command line's `--type` and for what a question says of itself.
"""

from __future__ import annotations

from collections.abc import Iterable

_SPREADSHEETS = ("xlsx", "xls", "ods", "table", "csv", "tsv")
_PRESENTATIONS = ("pptx", "ppt", "odp")
_WORD = ("docx", "doc", "odt", "rtf")
_MAILS = ("mail", "mailbox", "msg", "eml", "mbox", "email")
_BOOKS = ("epub",)
_WEB = ("html",)

# What people call a kind, and the formats (as in Document.format) that it takes in; the key is for people.
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

# Plurals only: "the spreadsheet" is one that the user has in mind, and we do not know which.
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


def formats_named(words: Iterable[str]) -> tuple[str, ...]:
    """The formats that some words for types mean: "pdf", ".pdf" and "PDFs" one, "spreadsheets" several."""
    return tuple(dict.fromkeys(format_ for word in words for format_ in _formats(word.strip().casefold().lstrip("."))))


def _formats(word: str) -> tuple[str, ...]:
    kind = KIND_OF_WORD.get(word) or KIND_OF_WORD.get(f"{word}s")
    if kind is not None:
        return FORMATS_OF_KIND[kind]
    return _FORMAT_OF_ENDING.get(word, (word,))


# Where parsers have another name for what lies in a file.
_FORMAT_OF_ENDING = {
    **dict.fromkeys(("md", "mkd", "mdx", "qmd"), ("markdown",)),
    **dict.fromkeys(("txt", "log"), ("text",)),
    **dict.fromkeys(("htm", "xhtml"), ("html",)),
    **dict.fromkeys(("csv", "tsv", "tab"), ("table",)),
    **dict.fromkeys(("eml", "emlx", "msg", "mht", "mhtml"), ("mail",)),
    **dict.fromkeys(("mbox", "mailbox"), ("mailbox", "mail")),
    **dict.fromkeys(("zip", "tar", "gz", "tgz", "bz2", "xz"), ("archive",)),
    **dict.fromkeys(("png", "jpg", "jpeg", "tif", "tiff", "gif", "webp", "bmp", "picture"), ("picture",)),
    "word": _WORD,
    "excel": _SPREADSHEETS,
    "powerpoint": _PRESENTATIONS,
    "ipynb": ("notebook",),
    "jsonl": ("json",),
    "ndjson": ("json",),
    "yml": ("yaml",),
    "latex": ("tex",),
    **dict.fromkeys(("py", "js", "ts", "java", "c", "cpp", "h", "rs", "go", "rb", "sh", "sql"), ("code",)),
}
