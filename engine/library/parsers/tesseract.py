"""Tesseract, run as a program: a picture goes in through a pipe, a table of words comes out.

The program is run directly, because the Python packages around it can neither have it end with us nor limit it to one
thread. Results are cached in a folder, so that an interrupted scan of many pages continues where it was, and its pages
are shown with their marks at once.
"""

from __future__ import annotations

import copy
import csv
import ctypes
import functools
import gzip
import hashlib
import io
import itertools
import json
import locale
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from time import monotonic

from engine.library.parsers.limits import MAX_OCR_PAGES, MAX_OCR_SECONDS, OCR_PAGE_SECONDS
from engine.library.parsers.ocr import Word
from engine.library.parsers.patience import Patience
from engine.library.parsers.shapes import Picture

_PROGRAM = "tesseract"
_ASKING_SECONDS = 20.0
# Lines with a lower confidence, in percent, are specks of dust or a face.
_MIN_CONFIDENCE = 40.0
_WORD_LEVEL = "5"
_PARAGRAPHS_PER_BLOCK = 10_000
# Large, because Tesseract hardly ever hangs, and a busy machine must not be reported as a fault of the page.
_MAX_STRETCH = 60.0
_RECALLED_PER_PAGE = 20
_ASKED_AGAIN_SECONDS = 10
_CACHE_BYTES = 256 * 2**20
_PR_SET_PDEATHSIG = 1
# Tesseract names languages by three letters, systems by two.
_LANGUAGES = {
    "ar": "ara", "bg": "bul", "ca": "cat", "cs": "ces", "da": "dan", "de": "deu", "el": "ell", "en": "eng",
    "es": "spa", "et": "est", "fa": "fas", "fi": "fin", "fr": "fra", "he": "heb", "hi": "hin", "hr": "hrv",
    "hu": "hun", "id": "ind", "it": "ita", "ja": "jpn", "ko": "kor", "lt": "lit", "lv": "lav", "nb": "nor",
    "nl": "nld", "no": "nor", "pl": "pol", "pt": "por", "ro": "ron", "ru": "rus", "sk": "slk", "sl": "slv",
    "sr": "srp", "sv": "swe", "th": "tha", "tr": "tur", "uk": "ukr", "vi": "vie", "zh": "chi_sim",
}  # fmt: skip


class Tesseract:
    """Reads pictures in the wanted languages that are installed; created for each file."""

    def __init__(
        self, languages: Sequence[str] = (), cache: Path | None = None, begin_page: Callable[[], None] = lambda: None
    ) -> None:
        """Takes the languages (none: the system's language and English), and the folder of the cache.

        `begin_page` is called for each picture that takes a while.
        """
        self._wanted, self._cache, self._begin_page = tuple(languages), cache, begin_page
        self._num_pages, self._num_recalled, self._seconds = 0, 0, 0.0
        self._only_recalls = False

    @property
    def is_ready(self) -> bool:
        return bool(self.languages)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages it uses; none if Tesseract or all of the wanted languages are missing."""
        return chosen(self._wanted, installed_languages(), locale.getlocale()[0] or "")

    def words(self, picture: Picture) -> tuple[Word, ...] | None:
        """Returns the words in reading order; None if it gave up on the picture, or the file's time is used up."""
        file = b"P%d\n%d %d\n255\n" % (5 if picture.num_channels == 1 else 6, picture.width, picture.height)
        file += b"".join(picture.rows)
        key = hashlib.sha256("+".join(self.languages).encode() + b"\n" + file).hexdigest()
        words = _kept(self._cache, key)
        if words is not None:
            # Unpacking hundreds of pictures takes a while, even if their text is cached.
            self._num_recalled += 1
            if self._num_recalled % _RECALLED_PER_PAGE == 0:
                self._begin_page()
        elif self._may_read:
            self._num_pages += 1
            self._begin_page()
            began = monotonic()
            words = _recognised(file, self.languages, picture, self._begin_page)
            self._seconds += monotonic() - began
            if words is not None:
                _keep(self._cache, key, words)
        return words

    def recalling(self) -> Tesseract:
        """As in Recogniser."""
        one = copy.copy(self)
        one._only_recalls = True
        return one

    @property
    def _may_read(self) -> bool:
        return not self._only_recalls and self._num_pages < MAX_OCR_PAGES and self._seconds < MAX_OCR_SECONDS


def chosen(wanted: Sequence[str], installed: Sequence[str], system_locale: str) -> tuple[str, ...]:
    """Returns the languages to use: the wanted ones that are installed.

    If none is wanted: the system's language and English, or else any that is installed.
    """
    if wanted:
        return tuple(language for language in dict.fromkeys(wanted) if language in installed)
    usual = (_LANGUAGES.get(system_locale[:2].lower(), "eng"), "eng")
    return tuple(language for language in dict.fromkeys(usual) if language in installed) or tuple(installed[:1])


def installed_languages() -> tuple[str, ...]:
    """Returns the languages of the installed Tesseract; none if it is not installed."""
    program = shutil.which(_PROGRAM)
    if program is None:
        return ()
    # The period is part of the cache's key, so that new languages are noticed after a while.
    period = int(monotonic() // _ASKED_AGAIN_SECONDS)
    try:
        return _languages_of(program, period)
    except (OSError, subprocess.SubprocessError):
        return ()


@functools.lru_cache(maxsize=1)
def _languages_of(program: str, _period: int) -> tuple[str, ...]:
    """Asks a program for its languages. Raises OSError or SubprocessError if that fails."""
    listed = subprocess.run(
        [program, "--list-langs"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASKING_SECONDS, check=True
    )
    names = listed.stdout.decode(errors="replace").splitlines()[1:]
    return tuple(name.strip() for name in names if name.strip() not in ("", "osd", "equ"))


def _recognised(
    file: bytes, languages: Sequence[str], picture: Picture, goes_on: Callable[[], None]
) -> tuple[Word, ...] | None:
    """Recognises the words in a picture; `goes_on` is called when it takes longer because the processor is busy."""
    program = shutil.which(_PROGRAM)
    if program is None:
        return None
    try:
        process = subprocess.Popen(
            [program, "stdin", "stdout", "-l", "+".join(languages), "tsv"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_THREAD_LIMIT": "1"},
            preexec_fn=_die_with_us(),
        )
        with process:
            table = _answer(process, file, goes_on)
    except OSError:
        return None
    if table is None or process.returncode:
        return None
    return tuple(words_of(table.decode("utf-8", "replace"), picture.width, picture.height))


def _answer(process: subprocess.Popen[bytes], file: bytes, goes_on: Callable[[], None]) -> bytes | None:
    """Returns what the process writes; None if it took too long and was killed."""
    patience = Patience(process.pid, OCR_PAGE_SECONDS, _MAX_STRETCH)
    question: bytes | None = file
    try:
        while (seconds := patience.left_seconds) > 0:
            try:
                return process.communicate(question, timeout=seconds)[0]
            except subprocess.TimeoutExpired:
                question = None
                goes_on()
        return None
    finally:
        process.kill()


def _die_with_us() -> Callable[[], object] | None:
    """Returns a function that has Tesseract end when we are killed in the middle of a page."""
    if sys.platform != "linux":
        return None
    # Loaded before the fork; a child process of ours has one thread.
    return functools.partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, signal.SIGKILL)


def words_of(table: str, width: int, height: int) -> Iterator[Word]:
    """Yields the words of Tesseract's table (level, page, block, paragraph, line, word, box of 4, confidence, text).

    Confidence is judged by line: a doubtful word in a good line is most likely right.
    """
    rows = csv.reader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE)
    words = (row for row in rows if len(row) == 12 and row[0] == _WORD_LEVEL and row[11].strip())
    for _, line in itertools.groupby(words, lambda row: row[1:5]):
        entries = [*line]
        if statistics.fmean(float(row[10]) for row in entries) >= _MIN_CONFIDENCE:
            yield from (_word(row, width, height) for row in entries)


def _word(row: Sequence[str], width: int, height: int) -> Word:
    left, top, across, down = map(int, row[6:10])
    box = (left / width, top / height, (left + across) / width, (top + down) / height)
    block, paragraph, line = map(int, row[2:5])
    return Word(row[11].strip(), box, _PARAGRAPHS_PER_BLOCK * block + paragraph, line)


# --- what was read before ---


def _kept(folder: Path | None, key: str) -> tuple[Word, ...] | None:
    try:
        if folder is None:
            return None
        entries = json.loads(gzip.decompress((folder / f"{key}.gz").read_bytes()))
        return tuple(Word(text, (x0, y0, x1, y1), *ids) for text, (x0, y0, x1, y1), *ids in entries)
    except (OSError, EOFError, ValueError, TypeError):
        return None


def _keep(folder: Path | None, key: str, words: Sequence[Word]) -> None:
    """Stores words in the cache, if possible; otherwise they will be recognised again."""
    if folder is None:
        return
    entries = [[word.text, [round(side, 5) for side in word.box], word.paragraph, word.line] for word in words]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _prune(folder)
        handle, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as stream:
            stream.write(gzip.compress(json.dumps(entries).encode()))
        os.replace(name, folder / f"{key}.gz")
    except OSError:
        return


def forget_all(folder: Path) -> None:
    """Drops all cached pages, because they do not tell which of them belong to a removed file.

    Pages that are needed again are recognised again.
    """
    try:
        with os.scandir(folder) as entries:
            paths = [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
    except OSError:
        return
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


@functools.lru_cache(maxsize=1)
def _prune(folder: Path) -> None:
    """Drops the oldest pages beyond the folder's limit, once per process."""
    files = sorted((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(folder))
    excess = sum(num_bytes for _, num_bytes, _ in files) - _CACHE_BYTES
    for _, num_bytes, path in files:
        if excess <= 0:
            return
        os.unlink(path)
        excess -= num_bytes
