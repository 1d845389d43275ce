"""Ragdoll's engine: documents flow into partitions, questions through two pipelines.

    from engine import Engine
    with Engine.open() as engine:
        print(engine.ask("How do I share state between threads?").text)

`Engine` is imported on first use, so that `import engine.protocol` stays light.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.engine import Engine

__all__ = ["Engine", "__version__"]
__version__ = "0.1.0"

# Native libraries read these once, when they are loaded, so they are set before any is; what the user has set stays.
# OpenMP threads that spin for long while they wait starve each other where embedder, writer and window share a few
# cores. libgomp, which llama.cpp uses on Linux, is made to spin or to sleep depending on the load (spinning.py); other
# runtimes always sleep. numpy's BLAS gets one thread, because embedding and scanning have threads of their own: with
# BLAS threads beside these, a question took half as long again and chunks twice as long.
_SLEEP_AT_ONCE = {"KMP_BLOCKTIME": "0"} if sys.platform == "linux" else {"OMP_WAIT_POLICY": "PASSIVE"}
THREAD_SETTINGS = {**_SLEEP_AT_ONCE, "OPENBLAS_NUM_THREADS": "1"}
for _name, _value in THREAD_SETTINGS.items():
    os.environ.setdefault(_name, _value)


def __getattr__(name: str) -> object:
    if name == "Engine":
        from engine.engine import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
