"""Output of a command: lines for users or JSON for scripts, on the stdout that native code cannot reach."""

from __future__ import annotations

import json
import select
import sys
from typing import BinaryIO

from engine.errors import RagdollError


def say(sentence: str) -> None:
    """Prints a sentence for users on stderr, which keeps stdout free for the result."""
    print(f"ragdoll: {sentence}", file=sys.stderr)


class Output:
    """The original stdout, kept from native code: lines for users, or JSON for scripts."""

    def __init__(self, stream: BinaryIO, is_json: bool) -> None:
        self._stream, self.is_json = stream, is_json

    @property
    def is_terminal(self) -> bool:
        return self._stream.isatty()

    def json(self, document: object) -> None:
        """Writes one JSON document, one line; names that are not UTF-8 stay as escapes."""
        self._write(json.dumps(document).encode("ascii") + b"\n")

    def text(self, text: str) -> None:
        self._write(text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        self._stream.flush()

    def line(self, text: str = "") -> None:
        self.text(text + "\n")

    def _write(self, content: bytes) -> None:
        """Writes everything: an unbuffered stream takes what fits, and returns None if it may not wait for a reader.

        Raises:
            BrokenPipeError: The reader has left.
            RagdollError: It cannot be written.
        """
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[self._stream.write(rest) or 0 :]
                if rest and sys.platform != "win32":
                    # A console of Windows takes 32 KiB at once, and waits by itself.
                    select.select((), (self._stream,), ())
        except BrokenPipeError:
            raise
        except OSError as error:
            raise RagdollError(f"The output cannot be written: {error.strerror}.") from error
