"""Python's own garbage: the libraries that are loaded for good are kept out of the collector's full passes.

Torch and transformers bring half a million objects. Indexing makes so many new ones that the collector went through all
of them again and again: 4 % of two cores.
"""

from __future__ import annotations

import gc


def settle() -> None:
    """Has the collector pass over everything that lives now, until the next call; what is dead by then is freed first.

    For whoever has just loaded much, or let it go: what dies later in cycles with this is only freed by the next call.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
