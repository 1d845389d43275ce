"""GGUF files with something wrong in them, the same for a seed; run by name, it loads some and says how each ended.

    python -m tests.helpers.broken_gguf MODEL FIRST LAST

A line for each case: its number, and "answers" or the sentence with which it was refused. The line of one that ends
the process is missing.
"""

from __future__ import annotations

import logging
import random
import struct
import sys
import tempfile
from pathlib import Path

from engine.core import SamplingParams
from engine.errors import RagdollError
from engine.generation.request import Request, RequestEnded, RequestFinished
from engine.generation.segment import Segment
from engine.models.gguf import read_header
from tests.helpers.loaders import loader_in

_COUNTS = slice(8, 24)


def header_bytes(model: Path) -> int:
    """Where the data begins, or a little later."""
    return min(tensor.offset for tensor in read_header(model).tensors)


def cut(model: Path, seed: int) -> bytes:
    """The beginning of a model's file: every second time only of its header."""
    chance = random.Random(seed)
    data = model.read_bytes()
    return data[: chance.randrange(header_bytes(model) if seed % 2 else len(data))]


def with_changed_header(model: Path, seed: int) -> bytes:
    """A model's file with a byte of its header changed: of a count, a length, a type, a value, a name or an offset."""
    chance = random.Random(seed)
    data = bytearray(model.read_bytes())
    if seed % 10 == 0:
        at = chance.randrange(_COUNTS.start, _COUNTS.stop)
    elif seed % 2:
        # The metadata before the vocabulary, and the tensor table behind it: most of what a number may do is there.
        at = chance.choice([*range(24, 24 + 700), *range(header_bytes(model) - 1600, header_bytes(model))])
    else:
        at = chance.randrange(24, header_bytes(model))
    data[at] ^= chance.choice([1 << chance.randrange(8), chance.randrange(1, 256)])
    return bytes(data)


def with_value(model: Path, key: str, code: str, value: float) -> bytes:
    """A model's file in which a number of the metadata is another; `code` is its type as `struct` writes it."""
    data = bytearray(model.read_bytes())
    name = key.encode()
    at = data.index(struct.pack("<Q", len(name)) + name) + 8 + len(name) + 4
    struct.pack_into(f"<{code}", data, at, value)
    return bytes(data)


def outcome(path: Path, folder: Path) -> str:
    """Loads a file and has it write some tokens; "answers", or why not."""
    loader = loader_in(folder)
    try:
        loader.load(path, None)
        loaded = loader.loaded_now
        assert loaded is not None
        prompt = Segment((1, *loaded.speaker.tokenize("How do threads share state?\n\u20ac", False)))
        sampling = SamplingParams(max_tokens=4, temperature=0.0)
        loaded.loop.submit(Request("q", (prompt,), sampling))
        while not (ends := [event for event in loaded.loop.step() if isinstance(event, RequestEnded)]):
            pass
        return "answers" if isinstance(ends[0], RequestFinished) else str(ends[0])
    except RagdollError as error:
        return f"{error.sentence} {error.way_out or 'NO WAY OUT'}"
    finally:
        loader.end()


def main(model: Path, first: int, last: int) -> None:
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "case.gguf"
        for seed in range(first, last):
            path.write_bytes(with_changed_header(model, seed))
            print(seed, outcome(path, path.parent), flush=True)
            path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
