"""Recognises a file by its first and last bytes; the name only decides between texts that look alike.

Pure: no file is opened here. `sniff` knows more formats than we read, so that a file we skip can be named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from engine.library.parsers.encoding import is_binary, sample_text

HEAD_BYTES = 64 * 2**10
TAIL_BYTES = 64 * 2**10
# Of a ZIP, enough of the end to hold its directory, up to this: room for more members than are read of an archive.
MAX_ZIP_TAIL_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: `family` is the key of its parser, if any; `what` completes "This is …"; `way_out` helps."""

    family: str
    what: str
    way_out: str = ""


@dataclass(frozen=True, slots=True)
class _Signature:
    """Bytes by which a kind is recognised. A weak one may also begin a text, so it counts in binary files only."""

    magic: bytes
    kind: Kind
    offset: int = 0
    is_weak: bool = False


def sniff(head: bytes, tail: bytes, name: str) -> Kind:
    """Returns what the file is.

    Args:
        head: The first 64 KiB, or all.
        tail: The last 64 KiB, or all; may overlap with the head. Of a ZIP, as much as `tail_bytes` says.
        name: The file's name, for its ending.
    """
    if _is_pdf(head, tail):
        return PDF
    if head.startswith(_ZIP_STARTS):
        return _zipped(head, tail)
    if head.startswith(_OLE):
        return _compound(head + tail, name)
    found = _by_signature(head) or _mail(head, name)
    if found is not None:
        return found
    return BINARY if is_binary(head) else _text(sample_text(head), name)


def tail_bytes(head: bytes, tail: bytes) -> int:
    """Returns how many of the last bytes `sniff` needs: more than `tail` has if a ZIP's directory begins before it."""
    directory = _directory(tail) if head.startswith(_ZIP_STARTS) else None
    wanted = len(tail) - min(0, directory[0]) if directory else 0
    return wanted if wanted <= MAX_ZIP_TAIL_BYTES else 0


PDF = Kind("pdf", "a PDF document")
DOCX = Kind("docx", "a Word document")
HTML = Kind("html", "a web page")
MARKDOWN = Kind("markdown", "a Markdown text")
TEXT = Kind("text", "a plain text")
CODE = Kind("code", "source code")
LINES = Kind("lines", "a text of records, one a line")
JSON = Kind("json", "a JSON file")
JSON_LINES = Kind("json_lines", "a file of JSON records")
YAML = Kind("yaml", "a YAML file")
TABLE = Kind("table", "a table in text")
XML = Kind("xml", "an XML file")
EXCEL_XML = Kind("excel_xml", "an Excel workbook in XML")
SVG = Kind("svg", "an SVG picture")
NOTEBOOK = Kind("ipynb", "a Jupyter notebook")
BINARY = Kind("binary", "a file of binary data")

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MEMBER, _ENTRY, _ZIP_END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_BIG_ZIP_END, _BIG_ZIP_LOCATOR = b"PK\x06\x06", b"PK\x06\x07"
_ZIP_STARTS = (_MEMBER, _ZIP_END, b"PK\x07\x08")
_ZIP = Kind("zip", "a ZIP archive")
_MP4 = Kind("mp4", "an MP4 video or sound")
_TIFF = Kind("tiff", "a TIFF picture")
_JP2 = Kind("jp2", "a JPEG 2000 picture")
_AVIF = Kind("avif", "an AVIF picture")
_HEIC = Kind(
    "heic",
    "a HEIC picture",
    "Save it as JPEG. An iPhone takes JPEGs with “Most Compatible” in the settings of its camera.",
)
_MP3 = Kind("mp3", "an MP3 sound")
_FONT = Kind("font", "a font")
_EXECUTABLE = Kind("executable", "a program")

_SIGNATURES = (
    _Signature(b"\x89PNG\r\n\x1a\n", Kind("png", "a PNG picture")),
    _Signature(b"\xff\xd8\xff", Kind("jpeg", "a JPEG picture")),
    _Signature(b"GIF87a", Kind("gif", "a GIF picture")),
    _Signature(b"GIF89a", Kind("gif", "a GIF picture")),
    _Signature(b"II*\x00", _TIFF),
    _Signature(b"MM\x00*", _TIFF),
    _Signature(b"II+\x00", _TIFF),
    _Signature(b"WEBP", Kind("webp", "a WebP picture"), offset=8, is_weak=True),
    _Signature(b"WAVE", Kind("wav", "a WAV sound"), offset=8, is_weak=True),
    _Signature(b"AVI ", Kind("avi", "an AVI video"), offset=8, is_weak=True),
    _Signature(b"BM", Kind("bmp", "a BMP picture"), is_weak=True),
    _Signature(b"\x00\x00\x01\x00", Kind("ico", "an icon")),
    _Signature(b"8BPS", Kind("psd", "a Photoshop picture"), is_weak=True),
    _Signature(b"\x00\x00\x00\x0cjP  ", _JP2),
    _Signature(b"\xff\x4f\xff\x51", _JP2),
    _Signature(b"ftyphei", _HEIC, offset=4),
    _Signature(b"ftyphev", _HEIC, offset=4),
    _Signature(b"ftypmif1", _HEIC, offset=4),
    _Signature(b"ftypmsf1", _HEIC, offset=4),
    _Signature(b"ftypavi", _AVIF, offset=4),
    _Signature(b"ftypM4A", Kind("m4a", "an M4A sound"), offset=4),
    _Signature(b"ftypqt", Kind("mov", "a QuickTime video"), offset=4),
    _Signature(b"ftyp", _MP4, offset=4),
    _Signature(b"\x1aE\xdf\xa3", Kind("matroska", "a Matroska or WebM video")),
    _Signature(b"\x00\x00\x01\xba", Kind("mpeg", "an MPEG video")),
    _Signature(b"\x00\x00\x01\xb3", Kind("mpeg", "an MPEG video")),
    _Signature(b"FLV\x01", Kind("flv", "a Flash video")),
    _Signature(b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", Kind("wmv", "a Windows Media file")),
    _Signature(b"ID3", _MP3, is_weak=True),
    _Signature(b"\xff\xfb", _MP3, is_weak=True),
    _Signature(b"\xff\xf3", _MP3, is_weak=True),
    _Signature(b"\xff\xf2", _MP3, is_weak=True),
    _Signature(b"fLaC", Kind("flac", "a FLAC sound"), is_weak=True),
    _Signature(b"OggS", Kind("ogg", "an Ogg sound or video"), is_weak=True),
    _Signature(b"MThd", Kind("midi", "a MIDI file"), is_weak=True),
    _Signature(b"AIFF", Kind("aiff", "an AIFF sound"), offset=8, is_weak=True),
    _Signature(b"\x1f\x8b", Kind("gzip", "a gzip archive")),
    _Signature(b"BZh", Kind("bzip2", "a bzip2 archive"), is_weak=True),
    _Signature(b"\xfd7zXZ\x00", Kind("xz", "an xz archive")),
    _Signature(b"7z\xbc\xaf\x27\x1c", Kind("7z", "a 7-Zip archive")),
    _Signature(b"Rar!\x1a\x07", Kind("rar", "a RAR archive")),
    _Signature(b"\x28\xb5\x2f\xfd", Kind("zstd", "a Zstandard archive")),
    _Signature(b"\x04\x22\x4d\x18", Kind("lz4", "an LZ4 archive")),
    _Signature(b"ustar", Kind("tar", "a tar archive"), offset=257),
    _Signature(b"\x7fELF", _EXECUTABLE),
    _Signature(b"MZ", _EXECUTABLE, is_weak=True),
    _Signature(b"\xcf\xfa\xed\xfe", _EXECUTABLE),
    _Signature(b"\xce\xfa\xed\xfe", _EXECUTABLE),
    _Signature(b"\xca\xfe\xba\xbe", Kind("class", "a Java class or a program")),
    _Signature(b"\x00asm", Kind("wasm", "a WebAssembly program")),
    _Signature(b"SQLite format 3\x00", Kind("sqlite", "an SQLite database")),
    _Signature(b"GGUF", Kind("gguf", "a language model"), is_weak=True),
    _Signature(b"PAR1", Kind("parquet", "a Parquet table"), is_weak=True),
    _Signature(b"ARROW1", Kind("arrow", "an Arrow table"), is_weak=True),
    _Signature(b"\x89HDF\r\n\x1a\n", Kind("hdf5", "an HDF5 file")),
    _Signature(b"\x93NUMPY", Kind("numpy", "a NumPy array")),
    _Signature(b"\x00\x01\x00\x00\x00", _FONT),
    _Signature(b"OTTO\x00", _FONT),
    _Signature(b"wOFF", _FONT, is_weak=True),
    _Signature(b"wOF2", _FONT, is_weak=True),
    _Signature(b"BOOKMOBI", Kind("mobi", "a Kindle book", "Convert it to EPUB."), offset=60),
    _Signature(b"AT&TFORM", Kind("djvu", "a DjVu document")),
    _Signature(b"\xffWPC", Kind("wordperfect", "a WordPerfect document", "Save it as .docx.")),
    _Signature(b"!BDN", Kind("pst", "an Outlook mail store", "Export its messages."), is_weak=True),
    _Signature(b"{\\rtf", Kind("rtf", "an RTF document")),
    _Signature(b"%!PS", Kind("postscript", "a PostScript document")),
)

_OPEN_DOCUMENTS = (
    (b"application/epub+zip", Kind("epub", "an EPUB book")),
    (b"application/vnd.oasis.opendocument.text", Kind("odt", "an OpenDocument text")),
    (b"application/vnd.oasis.opendocument.spreadsheet", Kind("ods", "an OpenDocument spreadsheet")),
    (b"application/vnd.oasis.opendocument.presentation", Kind("odp", "an OpenDocument presentation")),
    (b"application/vnd.oasis.opendocument.graphics", Kind("odg", "an OpenDocument drawing")),
    (b"application/vnd.oasis.opendocument", Kind("odf", "an OpenDocument file")),
)
_OFFICE_PARTS = (
    (b"word/document", DOCX),
    (b"ppt/presentation", Kind("pptx", "a PowerPoint presentation")),
    (b"xl/workbook", Kind("xlsx", "an Excel workbook")),
    (b"visio/document", Kind("vsdx", "a Visio drawing")),
    (b"META-INF/MANIFEST.MF", Kind("jar", "a Java archive")),
    (b"AndroidManifest.xml", Kind("apk", "an Android application")),
)

# For these, a field at the beginning tells which codec the picture uses.
_GENERAL_PICTURES, _AVIF_BRAND = (b"ftypmif1", b"ftypmsf1"), b"avif"

# The parts of Pages, Numbers and Keynote have the same names, so these are one kind.
_IWORK = Kind("iwork", "a document of Pages, Numbers or Keynote")
_IWORK_PARTS = (b"Index/Document.iwa", b"index.apxl")
# The first of these may be in any archive, so both are required; for documents of 2009.
_OLD_IWORK_PARTS = (b"index.xml", b"buildVersionHistory.plist")

_ENCRYPTED_OFFICE = Kind("encrypted_office", "an Office document with a password")
_COMPOUNDS = (
    ("EncryptedPackage", _ENCRYPTED_OFFICE),
    ("WordDocument", Kind("doc", "an old Word document (.doc)")),
    ("PowerPoint Document", Kind("ppt", "an old PowerPoint presentation (.ppt)")),
    ("Workbook", Kind("xls", "an old Excel workbook (.xls)")),
    ("__substg1.0_", Kind("msg", "an Outlook message")),
)
# A current office file in such a container is one with a password.
_COMPOUND_NAMES = {
    ".doc": 1, ".dot": 1, ".ppt": 2, ".pps": 2, ".xls": 3, ".xlt": 3, ".msg": 4,
    ".docx": 0, ".docm": 0, ".dotx": 0, ".pptx": 0, ".pptm": 0, ".ppsx": 0, ".potx": 0,
    ".xlsx": 0, ".xlsm": 0, ".xltx": 0, ".xlsb": 0,
}  # fmt: skip

_MARKDOWN_NAMES = {".md", ".markdown", ".mdown", ".mkd", ".mkdn", ".mdx", ".qmd", ".rmd"}
_HTML_NAMES = {".html", ".htm", ".xhtml", ".xht", ".shtml"}
_LINES_NAMES = {".log"}
# Texts that only their names tell.
_NAMED_TEXTS = {
    **dict.fromkeys((".rst", ".rest"), Kind("rst", "a reStructuredText")),
    ".org": Kind("org", "an Org text"),
    **dict.fromkeys((".tex", ".latex", ".ltx"), Kind("tex", "a TeX document")),
    # Many programs name a text table .xls, so that Excel opens it.
    **dict.fromkeys((".csv", ".tsv", ".tab", ".xls"), TABLE),
    **dict.fromkeys((".jsonl", ".ndjson"), JSON_LINES),
    **dict.fromkeys((".json", ".geojson", ".webmanifest"), JSON),
    **dict.fromkeys((".yaml", ".yml"), YAML),
    **dict.fromkeys((".xml", ".rss", ".atom", ".opf", ".tei", ".dbk", ".fb2", ".kml", ".gpx", ".xlf", ".tmx"), XML),
}
_CODE_NAMES = {
    ".ada", ".adb", ".ads", ".asm", ".awk", ".bas", ".bash", ".bat", ".bzl", ".c", ".cc", ".cfg", ".cjs", ".clj",
    ".cljs", ".cmake", ".cmd", ".conf", ".cpp", ".cs", ".css", ".cu", ".cxx", ".d", ".dart", ".diff", ".el", ".elm",
    ".env", ".erl", ".ex", ".exs", ".f", ".f90", ".fish", ".fs", ".glsl", ".go", ".gradle", ".graphql", ".groovy",
    ".h", ".hcl", ".hh", ".hpp", ".hrl", ".hs", ".ini", ".java", ".jl", ".js", ".json5", ".jsx", ".kt",
    ".kts", ".less", ".lisp", ".lua", ".m", ".mak", ".mjs", ".mk", ".ml", ".mli", ".mm", ".nim", ".nix", ".pas",
    ".patch", ".php", ".pl", ".pm", ".pp", ".properties", ".proto", ".ps1", ".py", ".pyi", ".pyx", ".r", ".rb",
    ".rkt", ".rs", ".sass", ".scala", ".scm", ".scss", ".sh", ".sol", ".sql", ".svelte", ".swift", ".tcl", ".tf",
    ".thrift", ".toml", ".ts", ".tsx", ".v", ".vb", ".vhd", ".vhdl", ".vim", ".vue", ".xsd", ".xsl", ".zig", ".zsh",
}  # fmt: skip
_CODE_FILES = {"makefile", "dockerfile", "cmakelists.txt", "jenkinsfile", "vagrantfile", "gemfile", "rakefile"}

# Comments are matched by an atomic group, which prevents exponential backtracking.
_MARKUP_START = re.compile(
    r"\s*+(?:<\?(?:xml|mso-)[^>]*+(?<=\?)>\s*+|(?><!--.*?-->)\s*+)*+<(!doctype\s+)?([a-z][\w:.-]*)", re.I | re.S
)
_EXCEL_XML_SPACE = "urn:schemas-microsoft-com:office:spreadsheet"
_XML_DECLARATION = re.compile(r"\s*<\?xml\s")
_JSON_START = re.compile(r"\s*(?:\{\s*\"(?:[^\"\\]|\\.)*\"\s*:|\[\s*\{\s*\"(?:[^\"\\]|\\.)*\"\s*:)")
# Endings that say nothing about a text's kind.
_UNTOLD_NAMES = {"", ".txt", ".text", ".dat", ".data", ".bak", ".old", ".tmp"}
_HTML_FRAGMENT = re.compile(r"<(?:body|head|div|p|table|span|h[1-6]|ul|ol|br|title|article|section)\b", re.I)
_MAIL_HEADER = re.compile(r"(?:[A-Za-z][\w-]*:[^\n]*\n(?:[ \t][^\n]*\n)*){3,}")
_MAIL_FIELDS = re.compile(r"^(received|return-path|mime-version|message-id|from|date):", re.I | re.M)
_MAIL_FIELD = re.compile(r"[A-Za-z][\w-]*:[ \t]")
_MAILBOX_START = re.compile(
    r"From \S(?=[^\n]*?\d{2})[^\n]*+\n(?:>[^\n]*+\n)*+(?:[A-Za-z][\w-]*+:[^\n]*+\n(?:[ \t][^\n]*+\n)*+){2,}"
)
_LENGTH_LINE = re.compile(r"\A\d+\s*\n")
_MAIL_HEAD_BYTES = 16 * 2**10
_MAIL_NAMES = {".eml", ".emlx", ".mbox", ".mht", ".mhtml"}
# The families of texts by their endings, for users who name a type by its ending.
FAMILY_OF_ENDING: Mapping[str, str] = {
    **dict.fromkeys(_MARKDOWN_NAMES, MARKDOWN.family),
    **dict.fromkeys(_HTML_NAMES, HTML.family),
    **dict.fromkeys(_LINES_NAMES, LINES.family),
    **dict.fromkeys(_CODE_NAMES, CODE.family),
    **dict.fromkeys(_MAIL_NAMES, "mail"),
    **{ending: kind.family for ending, kind in _NAMED_TEXTS.items()},
}
_MAY_BEGIN_WITH_SVG = {*_MARKDOWN_NAMES, *_HTML_NAMES, *_CODE_NAMES}
# A text with such an ending may quote a mail, but is none.
_TEXT_NAMES = {".txt", ".text", ".log", *_LINES_NAMES, *_NAMED_TEXTS, *_MARKDOWN_NAMES, *_HTML_NAMES, *_CODE_NAMES}


def _is_pdf(head: bytes, tail: bytes) -> bool:
    if head.startswith(b"%PDF-"):
        return True
    # Junk before the header is common (mail gateways, byte-order marks), but so are texts about PDF.
    # It may also be the first file of an archive, stored without compression.
    if head.startswith((b"PK", _OLE)) or head.startswith(b"ustar", 257):
        return False
    return b"%PDF-" in head[:1024] and (b"startxref" in tail or b"%%EOF" in tail)


def _zipped(head: bytes, tail: bytes) -> Kind:
    """Returns which kind of ZIP it is, by its members: by those that begin in the head if the directory is missing."""
    names = _names_in_directory(tail) or _names_in_head(head)

    def has(member: bytes) -> bool:
        return any(name.startswith(member) for name in names)

    # Such a document has a `mimetype` as its first file, or nearly; an archive of documents may begin with one, too.
    for mimetype, kind in _OPEN_DOCUMENTS if b"mimetype" in names else ():
        if mimetype in head[:256]:
            return kind
    if any(map(has, _IWORK_PARTS)) or all(map(has, _OLD_IWORK_PARTS)):
        return _IWORK
    return next((kind for member, kind in _OFFICE_PARTS if has(member)), _ZIP)


def _directory(tail: bytes) -> tuple[int, int] | None:
    """Returns where a ZIP's directory begins and ends in the tail, below zero if it begins before; None without one."""
    end = tail.rfind(_ZIP_END)
    if end < 0 or len(tail) < end + 16:
        return None
    size = tail[end + 12 : end + 16]
    # A ZIP of more than 4 GB or 65,535 members has another end before this one, with room for larger numbers.
    if tail.startswith(_BIG_ZIP_LOCATOR, max(0, end - 20)) and (big_end := tail.rfind(_BIG_ZIP_END, 0, end)) >= 0:
        end, size = big_end, tail[big_end + 40 : big_end + 48]
    return end - int.from_bytes(size, "little"), end


def _names_in_directory(tail: bytes) -> list[bytes]:
    """Returns the members in the directory at an archive's end; none if that begins before the tail.

    The tail may also hold directories of documents in the archive, which say nothing about the archive itself.
    """
    at, end = _directory(tail) or (-1, 0)
    names: list[bytes] = []
    while at >= 0 and tail.startswith(_ENTRY, at) and at + 46 <= end:
        lengths = [int.from_bytes(tail[at + place : at + place + 2], "little") for place in (28, 30, 32)]
        names.append(tail[at + 46 : at + 46 + lengths[0]])
        at += 46 + sum(lengths)
    return names


def _names_in_head(head: bytes) -> list[bytes]:
    """Returns the members that begin in the head."""
    names: list[bytes] = []
    at = head.find(_MEMBER)
    while at >= 0:
        num_packed, *lengths = (
            int.from_bytes(head[at + first : at + last], "little") for first, last in ((18, 22), (26, 28), (28, 30))
        )
        names.append(head[at + 30 : at + 30 + lengths[0]])
        # The packed size is 0 where it was not known when the member began.
        at = head.find(_MEMBER, at + 30 + sum(lengths) + num_packed)
    return names


def _compound(content: bytes, name: str) -> Kind:
    """Returns the kind of an OLE file by the names of its streams, in UTF-16, or else by its ending."""
    for stream, kind in _COMPOUNDS:
        if stream.encode("utf-16-le") in content:
            return kind
    index = _COMPOUND_NAMES.get(_ending(name))
    return _COMPOUNDS[index][1] if index is not None else Kind("ole", "an old Office file")


def _by_signature(head: bytes) -> Kind | None:
    if head[4:12] in _GENERAL_PICTURES and _AVIF_BRAND in head[: int.from_bytes(head[:4], "big")]:
        return _AVIF
    binary = is_binary(head)
    for signature in _SIGNATURES:
        if head.startswith(signature.magic, signature.offset) and (binary or not signature.is_weak):
            return signature.kind
    return None


def _text(text: str, name: str) -> Kind:
    """Returns the kind of a text. Markup counts by content, unless the name says that the text only quotes it."""
    ending = _ending(name)
    start = _MARKUP_START.match(text)
    tag = start.group(2).lower() if start else ""
    if start and (tag == "html" or (tag in ("head", "body") and ending not in _MARKDOWN_NAMES)):
        return HTML
    if tag.rpartition(":")[2] == "svg" and ending not in _MAY_BEGIN_WITH_SVG:
        return SVG
    if tag.rpartition(":")[2] == "workbook" and _EXCEL_XML_SPACE in text:
        return EXCEL_XML
    if ending in _HTML_NAMES and _HTML_FRAGMENT.search(text):
        return HTML
    if start and ending in _COMPOUND_NAMES and _HTML_FRAGMENT.search(text):
        return HTML
    if ending == ".ipynb" and text.lstrip().startswith("{"):
        return NOTEBOOK
    if ending in _UNTOLD_NAMES and _JSON_START.match(text):
        return JSON
    if ending in _UNTOLD_NAMES and start and _XML_DECLARATION.match(text):
        return XML
    return _plain(ending, PurePath(name).name.lower())


def _plain(ending: str, name: str) -> Kind:
    if ending in _MARKDOWN_NAMES:
        return MARKDOWN
    if ending in _NAMED_TEXTS:
        return _NAMED_TEXTS[ending]
    if ending in _LINES_NAMES:
        return LINES
    return CODE if ending in _CODE_NAMES or name in _CODE_FILES else TEXT


def _mail(head: bytes, name: str) -> Kind | None:
    """Returns whether it is a message or a mailbox; without such an ending, only if it has headers of a sent mail."""
    ending = _ending(name)
    text = sample_text(head[:_MAIL_HEAD_BYTES]).replace("\r\n", "\n")
    if ending not in _TEXT_NAMES and _MAILBOX_START.match(text):
        return Kind("mbox", "a mailbox")
    text = _LENGTH_LINE.sub("", text.lstrip("\n")) if ending == ".emlx" else text.lstrip("\n")
    fields = {field.lower() for field in _MAIL_FIELDS.findall(text)}
    has_header = _MAIL_HEADER.match(text) is not None
    if ending in _MAIL_NAMES:
        return Kind("mail", "a mail message") if has_header or _MAIL_FIELD.match(text) or len(fields) >= 2 else None
    is_sent = has_header and len(fields) >= 3 and not _MARKUP_START.match(text)
    return Kind("mail", "a mail message") if is_sent and ending not in _TEXT_NAMES else None


def _ending(name: str) -> str:
    return PurePath(name).suffix.lower()
