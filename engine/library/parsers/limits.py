"""Limits of a parser and the settings it works with, and the sentence for a file that exceeds them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.errors import DocumentEncrypted, DocumentTooLarge

if TYPE_CHECKING:
    from engine.library.parsers.ocr import Recogniser

MIB = 2**20
GIB = 2**30
# Office files shrink to a tenth, tables of zeros to a hundredth; a file that shrinks to a thousandth is a bomb.
MAX_RATIO = 500
# A page takes a second or two. The time limit of a file starts again with each recognised page.
OCR_PAGE_SECONDS = 60.0
MAX_OCR_PAGES = 2000
# OCR of a file stops after this time, so that it does not hold up the others for days.
MAX_OCR_SECONDS = 6 * 3600.0
_UNITS = ("KB", "MB", "GB")
_RATIO_COUNTS_FROM_BYTES = 64 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for a file and its unpacked parts, and what may be used to read it.

    `passwords` are tried in order on what is encrypted. `max_cells` is how many cells a workbook may fill. `ocr` reads
    pages that are pictures, None without OCR. `max_depth` is how deep documents may be nested: a workbook in a mail in
    an archive is two deep. `avoids_pdfium`: PDFium has crashed on this file.
    """

    max_file_bytes: int = 512 * MIB
    max_unpacked_bytes: int = GIB
    passwords: tuple[str, ...] = field(default=(), repr=False)
    max_cells: int = 2_000_000
    max_depth: int = 4
    ocr: Recogniser | None = None
    avoids_pdfium: bool = False

    @property
    def can_ocr(self) -> bool:
        return self.ocr is not None and self.ocr.is_ready


def check_file(num_bytes: int, limits: Limits) -> None:
    if num_bytes > limits.max_file_bytes:
        raise DocumentTooLarge(
            f"The file has {size(num_bytes)}, more than the limit of {size(limits.max_file_bytes)}.",
            "Raise “Largest file” in the settings, then index the file again.",
        )


def check_unpacked(packed_bytes: int, unpacked_bytes: int, limits: Limits) -> None:
    """Refuses compressed content that would unpack to too much, before anything is unpacked."""
    ceiling = limits.max_unpacked_bytes
    if unpacked_bytes > _RATIO_COUNTS_FROM_BYTES:
        ceiling = min(ceiling, max(packed_bytes, 1) * MAX_RATIO)
    if unpacked_bytes > ceiling:
        raise DocumentTooLarge(
            f"The file has {size(packed_bytes)} but unpacks to {size(unpacked_bytes)}, "
            f"more than the limit of {size(ceiling)}."
        )


def check_chunks(num_chunks: int, max_chunks: int) -> None:
    if num_chunks > max_chunks:
        raise DocumentTooLarge(
            f"The file would make {num_chunks:,} passages, more than the limit of {max_chunks:,}.",
            "Raise “Most passages of a file” in the settings, then index the file again.",
        )


def needs_password(what: str, limits: Limits) -> DocumentEncrypted:
    """Returns the error for something that no known password opens; `what` begins the sentence ("The PDF")."""
    if limits.passwords:
        return DocumentEncrypted("The password does not open it.", "Check the password, and enter it again.")
    return DocumentEncrypted(f"{what} needs a password.", "Enter its password, and it will be read.")


def size(num_bytes: int) -> str:
    """Returns a size for people: "812 bytes", "4.0 KB", "1.5 GB" (powers of 1024, as file managers count)."""
    if num_bytes < 1024:
        return "1 byte" if num_bytes == 1 else f"{num_bytes} bytes"
    power = min(len(_UNITS), int(math.log2(num_bytes) // 10))
    value = num_bytes / 1024**power
    return f"{value:,.1f} {_UNITS[power - 1]}" if value < 10 else f"{value:,.0f} {_UNITS[power - 1]}"
