"""Python's garbage collection: libraries that stay loaded are kept out of the collector's full passes.

Torch and transformers bring half a million objects. Indexing makes so many new ones that the collector went through all
of them again and again: 4 % of two cores.
"""

from __future__ import annotations

import gc


def settle() -> None:
    """Excludes everything that exists now from collection, until the next call; garbage is freed first.

    For code that has just loaded or released much: later garbage in cycles with these objects is freed only by the next
    call.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
