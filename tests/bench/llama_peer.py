"""llama-cpp-python's `Llama` with its RAM cache, used as documented, in a process of its own.

Imported, this module is the client; run, it is the process that answers: one JSON object per line in, one out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.bench.llama_server import Streamed
from tests.bench.peer_process import running
from tests.bench.peers import PeerFailed

DEFAULT_CACHE_BYTES = 8 * 2**30


class LlamaProcess:
    """A running `Llama` with a `LlamaRAMCache`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    @contextmanager
    def started(
        cls, model: Path, num_cells: int, num_threads: int, cache_bytes: int = DEFAULT_CACHE_BYTES
    ) -> Iterator[Self]:
        """Yields a process that answers within the block.

        Raises:
            PeerFailed: It does not start.
        """
        settings = {
            "model": str(model),
            "num_cells": num_cells,
            "num_threads": num_threads,
            "cache_bytes": cache_bytes,
        }
        command = [sys.executable, "-m", "tests.bench.llama_peer", json.dumps(settings)]
        with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            llama = cls(process)
            llama._receive()
            yield llama

    def complete(self, prompt: Sequence[int], max_tokens: int) -> Streamed:
        """Returns a greedy continuation, with the seconds from the request to each token."""
        assert self._process.stdin is not None
        asked = json.dumps({"prompt": list(prompt), "max_tokens": max_tokens})
        self._process.stdin.write(asked.encode() + b"\n")
        self._process.stdin.flush()
        return Streamed(tuple(self._receive()["token_seconds"]), 0, 0.0)

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerFailed("llama-cpp-python ended in the middle of an answer; its last lines are above.")
        received: dict[str, Any] = json.loads(line)
        return received


def answer(settings: dict[str, Any]) -> None:
    """Answers line by line until the input ends."""
    from llama_cpp import Llama
    from llama_cpp.llama_cache import LlamaRAMCache

    llama = Llama(
        settings["model"],
        n_ctx=settings["num_cells"],
        n_threads=settings["num_threads"],
        n_threads_batch=settings["num_threads"],
        flash_attn=True,
        verbose=False,
    )
    llama.set_cache(LlamaRAMCache(settings["cache_bytes"]))
    print(json.dumps({"is_ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        begun = time.perf_counter()
        stream = llama.create_completion(
            asked["prompt"], max_tokens=asked["max_tokens"], temperature=0.0, repeat_penalty=1.0, stream=True
        )
        seconds = [time.perf_counter() - begun for _ in stream]
        # The last chunk only carries the finish reason.
        print(json.dumps({"token_seconds": seconds[:-1]}), flush=True)


if __name__ == "__main__":
    answer(json.loads(sys.argv[1]))
