"""What a command says: lines for people or JSON for scripts, on the stdout that no native code can reach."""

from __future__ import annotations

import json
from typing import BinaryIO


class Output:
    """What stdout was before native code was sent to stderr: lines for people, or JSON for scripts."""

    def __init__(self, stream: BinaryIO, is_json: bool) -> None:
        self._stream, self.is_json = stream, is_json

    @property
    def is_terminal(self) -> bool:
        return self._stream.isatty()

    def json(self, document: object) -> None:
        """One JSON document, one line; names that are not UTF-8 stay as escapes."""
        self._stream.write(json.dumps(document).encode("ascii") + b"\n")

    def text(self, text: str) -> None:
        self._stream.write(text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        self._stream.flush()

    def line(self, text: str = "") -> None:
        self.text(text + "\n")
