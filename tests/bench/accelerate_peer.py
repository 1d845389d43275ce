"""Accelerate as a peer for models larger than memory: its environment, its model and the process that runs it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench import peer_environment
from tests.bench.bench_model import Shape
from tests.bench.confined import forget_pages
from tests.bench.llama_weights import comparable, weights_folder
from tests.bench.our_generation import num_threads
from tests.bench.side_process import Limit, SideProcess

# Installed on top of our environment, which has torch and transformers.
PACKAGES, IMPORTS = ("accelerate>=1.10",), ("accelerate", "torch", "transformers")
_FOLDER = "accelerate"


def interpreter(folder: Path) -> Path | None:
    """Returns the peer's Python below `folder`, created if needed; on failure, prints the reason and returns None."""
    return peer_environment.python(folder / _FOLDER, PACKAGES, IMPORTS)


@contextmanager
def started(python: Path, folder: Path, shape: Shape, limit: Limit) -> Iterator[SideProcess]:
    """Yields a side with as many layers of as many bytes as `shape` has in Q4_0, ready to generate.

    Raises:
        PeerFailed: It does not start within its memory limit.
    """
    weights = weights_folder(folder, comparable(shape))
    forget_pages(weights / "model.safetensors")
    with tempfile.TemporaryDirectory(dir=folder) as work:
        settings = {
            "folder": str(weights),
            "limit_bytes": limit.num_bytes,
            "num_threads": num_threads(),
            "work": work,
        }
        with SideProcess.started("tests.bench.accelerate_side", settings, limit, python) as side:
            yield side
