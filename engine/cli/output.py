"""What a command says: lines for people or JSON for scripts, on the stdout that no native code can reach."""

from __future__ import annotations

import json
import select
from typing import BinaryIO

from engine.errors import RagdollError


class Output:
    """What stdout was before native code was sent to stderr: lines for people, or JSON for scripts."""

    def __init__(self, stream: BinaryIO, is_json: bool) -> None:
        self._stream, self.is_json = stream, is_json

    @property
    def is_terminal(self) -> bool:
        return self._stream.isatty()

    def json(self, document: object) -> None:
        """One JSON document, one line; names that are not UTF-8 stay as escapes."""
        self._write(json.dumps(document).encode("ascii") + b"\n")

    def text(self, text: str) -> None:
        self._write(text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        self._stream.flush()

    def line(self, text: str = "") -> None:
        self.text(text + "\n")

    def _write(self, content: bytes) -> None:
        """All of it: a stream without a buffer takes what fits, and nothing (None) where it may not wait for a reader.

        Raises:
            BrokenPipeError: Nobody reads any more.
            RagdollError: It cannot be written.
        """
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[self._stream.write(rest) or 0 :]
                if rest:
                    select.select((), (self._stream,), ())
        except BrokenPipeError:
            raise
        except OSError as error:
            raise RagdollError(f"The output cannot be written: {error.strerror}.") from error
