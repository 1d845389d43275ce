"""The parser process: reads one file after the other for its engine, within limits, and may die of any of them.

The pool starts it as `python -m engine.library.parsers.child ENGINE_PID MEMORY_BYTES`. Commands come as frames on
stdin, answers go to the original stdout; anything that native code prints goes to stderr. It ends when stdin ends.
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
# Reports at once that a long part of the work begins.
Tell = Callable[[Head], None]

# Small enough that the engine decodes a frame without anyone noticing.
_CHUNKS_PER_FRAME = 128
_OOM_SCORE = 800
_NICE = 5
# While files are read: the embedder matters more, and all its threads wait for one that loses the processor.
_NICE_WHEN_READING = 15
_PR_SET_PDEATHSIG = 1
# Deeper than any author nests; a file beyond it counts as broken.
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
    """Keeps stdout for the answers, before any library can print to it."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _lay_low(engine_pid: int) -> None:
    """Lowers the priority, becomes the first victim when memory is short, and has the process die with its engine."""
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
    """Lowers the priority; a process cannot raise it again."""
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
    """Yields the parts of the answer to a command; every failure except a lack of memory is an answer too."""
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
    # First, because a missing tokenizer is no fault of the file.
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
    """Returns how to count tokens as the embedder does, without special ones; without a tokenizer, an estimate."""
    if tokenizer_file is None:
        return estimate_tokens
    try:
        tokenizer = Tokenizer.from_file(tokenizer_file)
    except MemoryError:
        raise
    except Exception as error:
        # The library raises plain `Exception` for everything.
        raise EmbedderUnavailable(
            f"The tokenizer.json of the embedding model cannot be read: {error}.",
            "Connect the drive on which the model is, or choose another one in the settings.",
        ) from error
    return counter(tokenizer)


def _no_room() -> DiskFull:
    """Returns the error for a full disk: packed files are unpacked into temporary files to be read."""
    return DiskFull(
        f"There was no room in {tempfile.gettempdir()} to unpack it.", "Free some space there and try again."
    )


def _unreadable(error: OSError) -> DocumentUnreadable:
    return DocumentUnreadable(f"The file cannot be read: {error.strerror or error}.")


def _error(error: RagdollError) -> dict[str, Any]:
    return {"error": {"kind": error.kind, "sentence": error.sentence, "way_out": error.way_out}}


def _is_worn(memory_bytes: int) -> bool:
    """Returns whether a past file has left so large a heap that the next one would have too little memory."""
    if sys.platform == "win32":
        return False
    return _peak_bytes() > memory_bytes // 2


def _peak_bytes() -> int:
    """Returns the most memory that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss: Linux carries it over exec, so a child of a big engine would begin with the engine's peak.
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
