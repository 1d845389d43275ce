"""Starts a llama-server on a free local port, queries it over HTTP, and ends it with the process that started it.

It serves one model, or is a router: that starts a server for each requested model and ends the least recently used.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from tests.bench.peer_process import running
from tests.bench.peers import PeerFailed

DEFAULT_SLOTS = 4
_MAX_START_SECONDS = 120.0
_MAX_ANSWER_SECONDS = 1800.0
# Every request that waits for its model occupies a thread of the router.
_ROUTER_THREADS = 256


@dataclass(frozen=True, slots=True)
class Streamed:
    """One answer as its reader saw it: seconds from the request to each token, and the number of cached prompt tokens.

    `tokens` is empty if a peer reports only text. `prompt_seconds` is the time to read the prompt, 0 if it is not
    reported.
    """

    token_seconds: tuple[float, ...]
    cached_tokens: int
    started: float
    tokens: tuple[int, ...] = ()
    prompt_seconds: float = 0.0

    @property
    def first_token_seconds(self) -> float:
        return self.token_seconds[0]

    @property
    def token_times(self) -> list[float]:
        """Returns the times on the clock of `time.perf_counter`."""
        return [self.started + seconds for seconds in self.token_seconds]


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options that are the same on both sides; all others, above all batch sizes, are the server's defaults.

    `num_cells` is the total of all slots. `num_slots` None is the server's default, four slots that share all cells; a
    number gives each slot cells of its own, unless `shares_cells`. `cache_mib` is the prompt cache in RAM, 8 GiB by
    default. `is_repacked`: weights are copied into the processor's preferred layout. Copies cannot be reclaimed under
    memory pressure, so a model that does not fit would be killed.
    """

    num_cells: int
    num_threads: int
    num_slots: int | None = None
    cache_mib: int = 8192
    is_repacked: bool = True
    # Whether the server fits layers and context to the graphics card by its own rule, or takes them as given here.
    fits_itself: bool = False
    shares_cells: bool = False

    def arguments(self, binary: Path, served: Mapping[str, object], port: int) -> list[str]:
        """Returns the command line of a server for what `served` names."""
        settings: dict[str, object] = {
            **served,
            "--host": "127.0.0.1",
            "--port": port,
            "-c": self.num_cells,
            "-t": self.num_threads,
            "-tb": self.num_threads,
            "-fa": "on",
            "--cache-ram": self.cache_mib,
        }
        if self.num_slots is not None:
            settings["-np"] = self.num_slots
        chosen = [str(part) for pair in settings.items() for part in pair]
        repacking = () if self.is_repacked else ("--no-repack",)
        sharing = ("--kv-unified",) if self.shares_cells else ()
        # Nothing else is fitted to the machine, so that two starts give the same server.
        return [str(binary), *chosen, *repacking, *sharing, "--fit", "on" if self.fits_itself else "off", "--no-ui"]


class LlamaServer:
    """A running server; use as many threads as it has slots."""

    def __init__(self, options: ServerOptions, port: int) -> None:
        self.options, self._port = options, port

    @classmethod
    @contextmanager
    def started(cls, binary: Path, model: Path, options: ServerOptions) -> Iterator[Self]:
        """Yields a server that answers within the block.

        Raises:
            PeerFailed: It does not start.
        """
        with cls._serving(binary, {"-m": model}, options) as server:
            yield server

    @classmethod
    @contextmanager
    def routing(cls, binary: Path, folder: Path, most: int, options: ServerOptions) -> Iterator[Self]:
        """Yields a router over a folder's models, at most `most` of them loaded at a time; else like `started`."""
        served = {"--models-dir": folder, "--models-max": most, "--threads-http": _ROUTER_THREADS}
        with cls._serving(binary, served, options) as server:
            yield server

    def complete(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        on_token: Callable[[float], None] = lambda seconds: None,
        model: str = "",
    ) -> Streamed:
        """Streams a greedy continuation; `on_token` receives the seconds since the request for each token.

        For a router, `model` is the name of the file without its suffix.
        """
        asked = {
            **({"model": model} if model else {}),
            "prompt": list(prompt),
            "n_predict": max_tokens,
            "stream": True,
            "cache_prompt": True,
            "temperature": 0.0,
            "samplers": ["temperature"],
            "repeat_penalty": 1.0,
            "ignore_eos": True,
            "return_tokens": True,
        }
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_MAX_ANSWER_SECONDS)
        try:
            started = time.perf_counter()
            connection.request("POST", "/completion", json.dumps(asked), {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                raise PeerFailed(f"llama-server refused a question: {response.read().decode(errors='replace')}")
            return read_stream(response, started, on_token)
        finally:
            connection.close()

    def complete_all(self, prompts: Sequence[Sequence[int]], max_tokens: Sequence[int]) -> list[Streamed]:
        """Completes all prompts, as many at a time as there are slots."""
        with ThreadPoolExecutor(self.options.num_slots or DEFAULT_SLOTS) as pool:
            return list(pool.map(self.complete, prompts, max_tokens))

    @classmethod
    @contextmanager
    def _serving(cls, binary: Path, served: Mapping[str, object], options: ServerOptions) -> Iterator[Self]:
        port = free_port()
        with (
            tempfile.TemporaryFile() as log,
            running(options.arguments(binary, served, port), stdout=log, stderr=log) as process,
        ):
            server = cls(options, port)
            server._wait_until_healthy(process, log)
            yield server

    def _wait_until_healthy(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        deadline = time.monotonic() + _MAX_START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise PeerFailed(f"llama-server ended with code {process.returncode}: {_last_lines(log)}")
            if self._is_healthy():
                return
            time.sleep(0.05)
        raise PeerFailed(f"llama-server did not come up in {_MAX_START_SECONDS:.0f} s: {_last_lines(log)}")

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5.0)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()


def read_stream(lines: Iterable[bytes], started: float, on_token: Callable[[float], None]) -> Streamed:
    """Reads server-sent events up to the one with `stop`; several tokens in one event share its time."""
    seconds, tokens = list[float](), list[int]()
    for line in lines:
        if not line.startswith(b"data: "):
            continue
        event = json.loads(line.removeprefix(b"data: "))
        if "error" in event:
            raise PeerFailed(f"llama-server gave up: {event['error']}")
        if event.get("stop"):
            timings = event["timings"]
            prompt_seconds = float(timings.get("prompt_ms", 0.0)) / 1000
            return Streamed(tuple(seconds), int(timings.get("cache_n", 0)), started, tuple(tokens), prompt_seconds)
        for token in event["tokens"]:
            tokens.append(token)
            seconds.append(time.perf_counter() - started)
            on_token(seconds[-1])
    raise PeerFailed("llama-server closed the connection in the middle of an answer.")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _last_lines(log: IO[bytes]) -> str:
    log.seek(0)
    return b"\n".join(log.read().splitlines()[-12:]).decode(errors="replace")
