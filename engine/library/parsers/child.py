"""The parser process: reads one file after the other for its engine, within limits, and may die of any of them.

Started as `python -m engine.library.parsers.child ENGINE_PID MEMORY_BYTES` by `pool`. Commands come as frames on
stdin, answers go to what was stdout; whatever native code prints lands in stderr. At the end of stdin it ends.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tokenizers import Tokenizer

from engine.errors import DiskFull, DocumentUnreadable, EmbedderUnavailable, ParserGaveUp, RagdollError, is_disk_full
from engine.library.chunker import chunk, estimate_tokens
from engine.library.parsers import families
from engine.library.parsers.counting import counter
from engine.library.parsers.frames import Head, pack_chunk, read_frame, write_frame
from engine.library.parsers.limits import Limits, check_chunks
from engine.library.parsers.tesseract import Tesseract

Answer = tuple[Head, bytes]
# Says at once that a long part of the work begins.
Tell = Callable[[Head], None]

# Small enough that the engine decodes a frame without anyone noticing.
_CHUNKS_PER_FRAME = 128
_OOM_SCORE = 800
_NICE = 5
# While files are read: what is read waits for the embedder, whose threads all wait for the one that lost its turn.
_NICE_WHEN_READING = 15
_PR_SET_PDEATHSIG = 1
# Pages nested deeper than any author means; above it a file counts as broken.
_RECURSION_LIMIT = 20_000
_OUT_OF_MEMORY = ParserGaveUp("Reading the file took more memory than it may have.")


def main() -> None:
    engine_pid, memory_bytes = int(sys.argv[1]), int(sys.argv[2])
    answers = _take_stdout()
    _lay_low(engine_pid)
    _limit_memory(memory_bytes)
    sys.setrecursionlimit(_RECURSION_LIMIT)
    write_frame(answers, {"ready": os.getpid()})
    _serve(sys.stdin.buffer, answers, memory_bytes)


def _take_stdout() -> BinaryIO:
    """Our own way out, before any library can print into it."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _lay_low(engine_pid: int) -> None:
    """Yields to everyone, is the first to go when memory is short, and never outlives its engine."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _stand_back(_NICE)
    if sys.platform == "linux":
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE), encoding="ascii")
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != engine_pid:
            sys.exit(0)


def _stand_back(nice: int) -> None:
    """Lets others go first; there is no way forward again."""
    if sys.platform != "win32":
        os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))


def _limit_memory(memory_bytes: int) -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _serve(commands: BinaryIO, answers: BinaryIO, memory_bytes: int) -> None:
    while (frame := read_frame(commands)) is not None:
        try:
            for head, blob in _answered(frame[0], functools.partial(write_frame, answers)):
                write_frame(answers, head, blob)
        except MemoryError:
            write_frame(answers, _error(_OUT_OF_MEMORY))
        is_worn = _is_worn(memory_bytes)
        write_frame(answers, {"end": True, "is_last": is_worn})
        if is_worn:
            return


def _answered(command: Head, tell: Tell) -> Iterator[Answer]:
    """The answer to a command in parts; every failure but a want of memory is an answer too."""
    try:
        yield from _COMMANDS[command["do"]](command, tell)
    except (DocumentUnreadable, EmbedderUnavailable) as error:
        yield _error(error), b""
    except RecursionError:
        yield _error(DocumentUnreadable("The file is nested too deeply to be read.")), b""
    except OSError as error:
        yield _error(_no_room() if is_disk_full(error) else _unreadable(error)), b""
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - this is the process's edge: a parser's fault is the file's fate
        yield _error(DocumentUnreadable(f"The file seems to be damaged ({type(error).__name__}: {error}).")), b""


def _read(command: Head, tell: Tell) -> Iterator[Answer]:
    _stand_back(_NICE_WHEN_READING)
    # First: that it cannot be had is no fault of the file.
    count = _counter(command["tokenizer"])
    document = families.parse(Path(command["path"]), _limits(command, tell))
    chunks = chunk(document, count, command["max_tokens"], command["overlap_tokens"])
    check_chunks(len(chunks), command["max_chunks"])
    for first in range(0, len(chunks), _CHUNKS_PER_FRAME):
        yield {"chunks": [pack_chunk(part) for part in chunks[first : first + _CHUNKS_PER_FRAME]]}, b""
    num_pages = sum(page.number is not None for page in document.pages)
    result = {"format": document.format, "title": document.title, "num_pages": num_pages}
    yield {"result": {**result, "remark": document.remark, "needs": document.needs}}, b""


def _page(command: Head, tell: Tell) -> Iterator[Answer]:
    from engine.library.parsers import view

    span = command["start"], command["end"]
    limits = _limits(command, tell)
    seen = view.view(Path(command["path"]), command["page"], *span, command["width_px"], limits, command["text"])
    fields = {field.name: getattr(seen, field.name) for field in dataclasses.fields(seen)}
    image = fields.pop("image_png")
    yield {"result": fields}, image


def _limits(command: Head, tell: Tell) -> Limits:
    cache = Path(command["ocr_cache"]) if command["ocr_cache"] else None
    ocr = Tesseract(command["ocr_languages"], None if command["passwords"] else cache, lambda: tell({"ocr_page": True}))
    passwords = tuple(command["passwords"])
    return Limits(command["max_file_bytes"], passwords=passwords, ocr=ocr, avoids_pdfium=command["avoids_pdfium"])


_COMMANDS: dict[str, Callable[[Head, Tell], Iterator[Answer]]] = {"read": _read, "page": _page}


@functools.lru_cache(maxsize=2)
def _counter(tokenizer_file: str | None) -> Callable[[str], int]:
    """How the embedder counts tokens, without its special ones; by rule of thumb where it has no tokenizer file."""
    if tokenizer_file is None:
        return estimate_tokens
    try:
        tokenizer = Tokenizer.from_file(tokenizer_file)
    except MemoryError:
        raise
    except Exception as error:
        # It tells all that may be wrong by this one type.
        raise EmbedderUnavailable(
            f"The tokenizer.json of the embedding model cannot be read: {error}.",
            "Connect the drive on which the model is, or choose another one in the settings.",
        ) from error
    return counter(tokenizer)


def _no_room() -> DiskFull:
    """What is packed is laid out in a file of its own to be read."""
    return DiskFull(
        f"There was no room in {tempfile.gettempdir()} to unpack it.", "Free some space there and try again."
    )


def _unreadable(error: OSError) -> DocumentUnreadable:
    return DocumentUnreadable(f"The file cannot be read: {error.strerror or error}.")


def _error(error: RagdollError) -> dict[str, Any]:
    return {"error": {"kind": error.kind, "sentence": error.sentence, "way_out": error.way_out}}


def _is_worn(memory_bytes: int) -> bool:
    """Whether a past file has left so large a heap that the next one would find less room than it is due."""
    if sys.platform == "win32":
        return False
    return _peak_bytes() > memory_bytes // 2


def _peak_bytes() -> int:
    """The most memory that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss: Linux carries it over exec, so a child of a big engine would begin with the engine's peak.
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
