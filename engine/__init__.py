"""Ragdoll's engine: documents flow into partitions, questions through two pipelines.

    from engine import Engine
    with Engine.open() as engine:
        print(engine.ask("How do I share state between threads?").text)

`Engine` is imported on first use, so that `import engine.protocol` stays light.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.engine import Engine

__all__ = ["Engine", "__version__"]
__version__ = "0.1.0"

# What native libraries read once, when they are loaded, so it is said before any is; who says something else is heard.
# OpenMP's threads that spin for long while they wait starve each other where embedder, writer and window share a few
# cores; threads that sleep at once have to be woken a hundred times a token, at 50 µs each where cores fall asleep too.
# So they spin for some 20 µs: on two cores a 1B model then writes 28 tokens a second instead of 19, and beside a busy
# program 15 as before, where spinning for a millisecond leaves 4. numpy's BLAS has one thread: those that embed and
# scan are ours, and beside its own a question took half as long again and chunks twice as long.
THREAD_SETTINGS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000", "OPENBLAS_NUM_THREADS": "1"}
for _name, _value in THREAD_SETTINGS.items():
    os.environ.setdefault(_name, _value)


def __getattr__(name: str) -> object:
    if name == "Engine":
        from engine.engine import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
