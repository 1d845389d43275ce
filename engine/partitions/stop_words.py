"""English words that say how something is asked rather than what about; left out of the word index.

Our own list, because LanceDB's `icu` tokenizer drops the stop words of all languages together, and with them
"cat" and "dog". Words of other languages stay: BM25 gives frequent ones next to no weight.
"""

from __future__ import annotations

_WORDS = """
    a an the and or but if so than that this these those there their they them then to of in on at by for from
    with as into onto upon about is are was were be been being am do does did doing has have had having can could
    will would shall should may might must not no nor i me my we us our you your he him his she her it its who
    whom whose which what when where why how
"""
STOP_WORDS = frozenset(_WORDS.split())
