"""Ragdoll's engine: documents flow into partitions, questions through two pipelines.

    from engine import Engine
    with Engine.open() as engine:
        print(engine.ask("How do I share state between threads?").text)

`Engine` is imported on first use, so that `import engine.protocol` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.engine import Engine

__all__ = ["Engine", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "Engine":
        from engine.engine import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
