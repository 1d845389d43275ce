"""One model at a time, as applications switch: free it and its context, load the other, and read its texts again.

Runs as a side (side_process.py), with our engine's classes for model and context and nothing else of it. Settings:
`models`; `num_threads`; `num_cells` and `num_sequences` of a context. A request with the `texts` of each model writes
them in turn, `steps` steps of all texts of one model and then of the other, and returns the times of `switches`
switches. An empty request returns the bytes held.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.model import Model
from tests.bench.confined import Group
from tests.bench.pool_figures import Switch
from tests.bench.side_process import Said, group_of, serve

N_BATCH = 512

Text = list[int]


class UnloadSide:
    """At most one of several models, loaded."""

    def __init__(self, settings: Said, group: Group) -> None:
        self._group = group
        self._paths = [Path(path) for path in settings["models"]]
        self._spec = ContextSpec(
            settings["num_cells"], N_BATCH, N_BATCH, settings["num_threads"], settings["num_sequences"]
        )

    def switch(self, texts: Sequence[list[Text]], steps: int, num_switches: int) -> list[Switch]:
        """Writes the texts of each model in turn."""
        switches, out_s = list[Switch](), 0.0
        for number in range(num_switches + 1):
            place = number % len(self._paths)
            begun = time.perf_counter()
            with Loaded(self._paths[place], self._spec) as loaded:
                loaded.read(texts[place])
                arrived = time.perf_counter()
                step_s = statistics.median(loaded.step(texts[place]) for _ in range(steps))
                if number:
                    switches.append(Switch(out_s, arrived - begun - step_s))
                leaving = time.perf_counter()
            out_s = time.perf_counter() - leaving
        return switches

    def held_bytes(self) -> int:
        return self._group.usage().held_bytes


class Loaded:
    """A model and its context; text n is sequence n."""

    def __init__(self, path: Path, spec: ContextSpec) -> None:
        with ExitStack() as undo:
            self._model = Model(path, 0, lambda share: True)
            undo.callback(self._model.close)
            self._context = Context(self._model, spec)
            undo.callback(self._context.close)
            self._closing = undo.pop_all()

    def __enter__(self) -> Loaded:
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()

    def read(self, texts: Sequence[Text]) -> None:
        """Reads all texts and appends the next token of each."""
        for batch in batches([len(text) for text in texts], N_BATCH):
            ends = [(text, end) for text, _, end in batch if end == len(texts[text])]
            stretches = [
                Stretch(text, start, texts[text][start:end], num_logits=int((text, end) in ends))
                for text, start, end in batch
            ]
            rows = self._context.decode(stretches)
            for (text, start, end), row in zip(batch, rows, strict=True):
                if (text, end) in ends:
                    texts[text].append(self._likeliest(row + end - start - 1))

    def step(self, texts: Sequence[Text]) -> float:
        """Appends a token to each text; returns the seconds."""
        begun = time.perf_counter()
        rows = self._context.decode([Stretch(n, len(text) - 1, text[-1:], 1) for n, text in enumerate(texts)])
        for text, token in zip(texts, map(self._likeliest, rows), strict=True):
            text.append(token)
        return time.perf_counter() - begun

    def _likeliest(self, row: int) -> int:
        return int(np.argmax(self._context.logits(row)))


def batches(lengths: Sequence[int], room: int) -> Iterator[list[tuple[int, int, int]]]:
    """Yields batches of at most `room` tokens; each entry is a text with start and end."""
    batch, left = list[tuple[int, int, int]](), room
    for text, length in enumerate(lengths):
        start = 0
        while start < length:
            end = min(length, start + left)
            batch.append((text, start, end))
            left -= end - start
            start = end
            if not left:
                yield batch
                batch, left = [], room
    if batch:
        yield batch


def prepare(settings: Said) -> Callable[[Said], Said]:
    side = UnloadSide(settings, group_of(settings))

    def answer(asked: Said) -> Said:
        if "texts" not in asked:
            return {"held_bytes": side.held_bytes()}
        switches = side.switch(asked["texts"], asked["steps"], asked["switches"])
        return {"switches": [switch.told() for switch in switches]}

    return answer


if __name__ == "__main__":
    serve(prepare)
