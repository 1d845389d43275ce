"""Pictures among the text of a PDF's pages: which of them may hold text of their own, and where each is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from engine.library.parsers.limits import Limits
from engine.library.parsers.ocr import MANY_TIMES, is_bare
from engine.library.parsers.pdfium import PdfFile, PdfPage, Shown
from engine.library.parsers.shapes import Mark

# The least size of a picture that is larger than a logo: its share of the page, and in pixels.
_LARGE_SHARE = 1 / 20
_LARGE_PX = (200, 60)


def to_read(file: PdfFile, index: int, limits: Limits) -> tuple[Shown, ...]:
    """Returns the pictures to read on a page of text; that depends on the pictures of all pages."""
    if not limits.can_ocr or not _on_page(file, index):
        return ()
    return chosen([_on_page(file, other) for other in range(len(file))])[index]


def large_pictures(page: PdfPage) -> tuple[Shown, ...]:
    """Returns pictures that may hold text; one with text on it has been recognised by another program already."""
    found: list[Shown] = []
    for shown in page.pictures(_LARGE_SHARE, *_LARGE_PX):
        # Two pictures in one place, as a picture and its shadow, count as one.
        if is_bare(shown.text) and not any(_are_one(shown.mark, other.mark) for other in found):
            found.append(shown)
    return tuple(found)


def chosen(pages: Sequence[Sequence[Shown]]) -> list[tuple[Shown, ...]]:
    """Returns the pictures to read on each page: none that is on many pages, and each only where it is first shown."""
    num_shown = Counter(shown.digest for page in pages for shown in page)
    seen: set[bytes] = set()
    wanted: list[tuple[Shown, ...]] = []
    for page in pages:
        new = {shown.digest: shown for shown in page if shown.digest not in seen}
        seen.update(new)
        wanted.append(tuple(shown for shown in new.values() if num_shown[shown.digest] < MANY_TIMES))
    return wanted


def _on_page(file: PdfFile, index: int) -> tuple[Shown, ...]:
    with file.page(index) as page:
        return large_pictures(page) if page is not None else ()


def _are_one(first: Mark, second: Mark) -> bool:
    return _holds(first, second) and _holds(second, first)


def _holds(mark: Mark, other: Mark) -> bool:
    """Returns whether the middle of the other mark is in this one."""
    x, y = (other[0] + other[2]) / 2, (other[1] + other[3]) / 2
    return mark[0] <= x <= mark[2] and mark[1] <= y <= mark[3]
