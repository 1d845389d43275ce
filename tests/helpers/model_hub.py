"""A hub of models on this machine: what the real one answers, and what goes wrong with it, over real sockets.

with ModelHub() as hub:
    hub.put("owner/name", "m.gguf", content)
    hub.cuts = [1000]  # the first answer with a file ends after so many bytes
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

# Whatever proxy the machine has: this hub is on it.
os.environ["no_proxy"] = "127.0.0.1"


@dataclass
class Refusal:
    """What is answered instead."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class ModelHub:
    """Serves what was `put`; `asked` are the paths and ranges of all requests, `accounts` whom they named.

    `refusals` are answered one after the other, before anything else is; `instead` of files, where it is set. Files
    are sent in pieces, and before each `between` is called with how many bytes of the answer were sent. A search by
    words is answered with `found`; without it, this is a mirror that has none.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.accounts: list[str] = []
        self.cuts: list[int] = []
        self.refusals: list[Refusal] = []
        self.instead: Refusal | None = None
        self.tree_instead: Refusal | None = None
        self.found: list[dict[str, Any]] | None = None
        self.gives_ranges = True
        self.redirects = False
        self.piece_bytes = 1 << 16
        self.between: Callable[[int], object] = lambda _: None
        self._files: dict[tuple[str, str, str], tuple[bytes, dict[str, str] | str | None]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> ModelHub:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def asked_for_files(self) -> list[str]:
        """The ranges that files were asked for with, "" for all."""
        return [wanted for path, wanted in self.asked if "/resolve/" in path]

    def put(self, repo: str, file: str, content: bytes, sha256: str | None = "", revision: str = "main") -> str:
        """A file and its checksum: the right one where none is given, and None tells none."""
        told = hashlib.sha256(content).hexdigest() if sha256 == "" else sha256
        self._files[repo, revision, file] = content, {"oid": told} if told is not None else None
        return f"{repo}/{file}"

    def put_small(self, repo: str, file: str, content: bytes, oid: str = "") -> None:
        """A file of which git's checksum is told, as the hub has it of what is no large file."""
        told = oid or hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
        self._files[repo, "main", file] = content, told

    def put_folder(self, repo: str, folder: Path) -> None:
        """All that lies in a folder, weights as large files."""
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            is_large = path.suffix in (".safetensors", ".bin")
            (self.put if is_large else self.put_small)(repo, path.relative_to(folder).as_posix(), path.read_bytes())

    def take_away(self, repo: str, file: str) -> None:
        del self._files[repo, "main", file]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.asked.append((self.path, self.headers.get("Range", "")))
                hub.accounts.append(self.headers.get("Authorization", ""))
                if hub.refusals:
                    self._answer(hub.refusals.pop(0))
                elif self.path.startswith("/api/models?") and hub.found is not None:
                    self._answer(Refusal(200, {"Content-Type": "application/json"}, json.dumps(hub.found).encode()))
                elif self.path.startswith("/api/models/"):
                    self._answer(hub.tree_instead or hub._tree(self.path))
                elif hub.redirects and not self.path.startswith("/elsewhere"):
                    self._answer(Refusal(302, {"Location": f"{hub.address}/elsewhere{self.path}"}))
                elif hub.instead is not None:
                    self._answer(hub.instead)
                else:
                    self._send_file()

            def _answer(self, answer: Refusal) -> None:
                self._begin(answer.status, answer.headers.get("Date"))
                for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            def _begin(self, status: int, date: str | None = None) -> None:
                # Else it would say the time of this machine as well.
                (self.send_response_only if date else self.send_response)(status)
                # Said, so that nobody asks again on a connection that is about to end.
                self.send_header("Connection", "close")

            def _send_file(self) -> None:
                repo, _, there = self.path.removeprefix("/elsewhere").removeprefix("/").partition("/resolve/")
                revision, _, file = there.partition("/")
                key = repo, unquote(revision), unquote(file)
                if key not in hub._files:
                    self._answer(Refusal(404))
                    return
                content, _ = hub._files[key]
                wanted = self.headers.get("Range", "")
                start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and hub.gives_ranges else 0
                self._begin(206 if start else 200)
                self.send_header("Content-Length", str(len(content) - start))
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
                self.end_headers()
                end = start + hub.cuts.pop(0) if hub.cuts else len(content)
                try:
                    for at in range(start, end, hub.piece_bytes):
                        hub.between(at - start)
                        self.wfile.write(content[at : min(end, at + hub.piece_bytes)])
                except OSError:
                    return

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def _tree(self, path: str) -> Refusal:
        there = urlsplit(path)
        repo, _, inside = there.path.removeprefix("/api/models/").partition("/tree/")
        revision, _, folder = inside.partition("/")
        prefix = f"{unquote(folder)}/" if folder else ""
        is_deep = there.query == "recursive=true"
        found = [
            _entry(file, content, told)
            for (owner, version, file), (content, told) in self._files.items()
            if (owner, version) == (repo, unquote(revision))
            and file.startswith(prefix)
            and (is_deep or "/" not in file.removeprefix(prefix))
        ]
        return Refusal(200, {"Content-Type": "application/json"}, json.dumps(found).encode()) if found else Refusal(401)


def _entry(file: str, content: bytes, told: dict[str, str] | str | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": file, "size": len(content)}
    if isinstance(told, dict):
        # Git's is that of a pointer to the file.
        return {**entry, "oid": "0" * 40, "lfs": {**told, "size": len(content), "pointerSize": 135}}
    return {**entry, "oid": told} if told is not None else entry
