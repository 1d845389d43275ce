"""A running llama-server: started on a free port of this machine, asked by HTTP, and ended with whoever started it.

It serves one model, or is a router: then it starts a server for each model that is asked for, and ends those for which
nobody has asked longest.
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
# Each question that waits for its model keeps a thread of a router.
_ROUTER_THREADS = 256


@dataclass(frozen=True, slots=True)
class Streamed:
    """One answer as its reader saw it: seconds from the request to each token, and how much was not read again.

    `tokens` is empty where a peer tells only text. `prompt_seconds` is what reading the prompt took, 0 where it is not
    told.
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
        """On the clock of `time.perf_counter`."""
        return [self.started + seconds for seconds in self.token_seconds]


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What both sides are set to alike; all else, its batches above all, is the server's own choice.

    `num_cells` are those of all slots together. `num_slots` None is the server's default: four that share all cells;
    a number gives each slot cells of its own, unless it `shares_cells` all the same. `cache_mib` is its prompt cache in
    RAM, as large as by default. `is_repacked`: weights are copied into the order that the processor likes; copies
    cannot be given up for want of memory, so they would be the end of a model that does not fit.
    """

    num_cells: int
    num_threads: int
    num_slots: int | None = None
    cache_mib: int = 8192
    is_repacked: bool = True
    # Layers and context as its own rule fits them to the graphics card, or all as they are given here.
    fits_itself: bool = False
    shares_cells: bool = False

    def arguments(self, binary: Path, served: Mapping[str, object], port: int) -> list[str]:
        """Of a server of what `served` says, by the names of its own options."""
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
        # Nothing else is fitted to the machine, so that a second start is like the first.
        return [str(binary), *chosen, *repacking, *sharing, "--fit", "on" if self.fits_itself else "off", "--no-ui"]


class LlamaServer:
    """A server that is running; ask it from as many threads as it has slots."""

    def __init__(self, options: ServerOptions, port: int) -> None:
        self.options, self._port = options, port

    @classmethod
    @contextmanager
    def started(cls, binary: Path, model: Path, options: ServerOptions) -> Iterator[Self]:
        """One that answers as long as the block lasts.

        Raises:
            PeerFailed: It does not come up.
        """
        with cls._serving(binary, {"-m": model}, options) as server:
            yield server

    @classmethod
    @contextmanager
    def routing(cls, binary: Path, folder: Path, most: int, options: ServerOptions) -> Iterator[Self]:
        """A router over the models of a folder, at most so many of them loaded at a time; else as `started`."""
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
        """Streams a greedy continuation; `on_token` is told the seconds since the request, token by token.

        A router is told the name of the `model`, which is that of its file without its ending.
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
        """All at once, as many side by side as there are slots."""
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
    """Reads server-sent events up to the one that says `stop`; several tokens in one event share its time."""
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
