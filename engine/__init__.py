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

# OpenMP reads this once, when torch or llama.cpp loads it, so it is said before either. Threads that spin while they
# wait starve each other where embedder, writer and window share a few cores: on two busy ones, asleep instead of
# spinning, questions were embedded 6 times as fast and tokens came 20 times as fast.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# So does numpy's BLAS. Its threads spin as well, and those that embed and scan are ours: with its own beside them, a
# question took half as long again and chunks twice as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def __getattr__(name: str) -> object:
    if name == "Engine":
        from engine.engine import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
