"""Decides whether a pass of few tokens is padded to a multiple of four: both ways are tried, since kernels differ.

Matrices that were copied into llama.cpp's own order are multiplied by four tokens at once; another kernel computes the
remaining ones token by token. With AVX-512, a pass of a 3B model (Q4_0, two cores) takes 172 ms for one token, 209 for
two and 138 for four, so it is faster with padding tokens. Five take 212 ms and eight 259. In Q4_K one token by itself
is faster, in Q8_0 three are; if a device computes some of the layers, it differs again. So for each number of tokens
some passes are computed both ways, one after the other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from engine.generation.rows import AT_ONCE

# With this many tokens or more, the remainder matters less than the variation between two such passes.
MOST_TRIED = 16
# Pairs to compare, the most pairs to begin, and passes until the next comparison: the load of other programs changes.
PAIRS, MOST_PAIRS, PASSES_BETWEEN = 3, 12, 512
_LEAST_GAIN = 0.05
# Two passes whose cells differ by no more than this are comparable.
_ALIKE_SHARE, _ALIKE_CELLS = 1 / 8, 64


@dataclass(slots=True)
class _Tried:
    """The measurements for one number of tokens; `ratios` are the seconds with padding ÷ the seconds without."""

    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=PAIRS))
    pairs_left: int = PAIRS
    pairs_begun: int = 0
    passes_since: int = 0
    # Seconds and cells of the padded pass, which is the first of a pair.
    filled: tuple[float, int] | None = None


class BatchPadding:
    """Learns from passes with all threads; each context has its own, since another may use other devices."""

    def __init__(self) -> None:
        self._tried: dict[int, _Tried] = {}
        self._is_warm = False

    def is_trying(self, num_tokens: int) -> bool:
        """Returns whether the next passes of `num_tokens` are computed both ways in turn."""
        return _is_tried(num_tokens) and self._of(num_tokens).pairs_left > 0

    def num_to_add(self, num_tokens: int, n_ubatch: int, *, may_try: bool = True) -> int:
        """Returns how many tokens to add to a batch of `num_tokens`; `n_ubatch` are computed at a time.

        Without `may_try`, this follows from earlier measurements, because the pass will not be noted.
        """
        missing = -num_tokens % AT_ONCE
        if not _is_tried(num_tokens) or num_tokens + missing > n_ubatch:
            return default_padding(num_tokens, n_ubatch)
        tried = self._of(num_tokens)
        if may_try and tried.pairs_left:
            return missing if tried.filled is None else 0
        if not tried.ratios:
            return default_padding(num_tokens, n_ubatch)
        return missing if median(tried.ratios) < 1 - _LEAST_GAIN else 0

    def note(self, num_tokens: int, num_added: int, num_cells: int, seconds: float) -> None:
        """Notes that a pass of `num_tokens` + `num_added` took this long, and how many cells its tokens attended to."""
        if not self._is_warm:
            # The first pass is slower: it touches memory that all later ones find in place.
            self._is_warm = True
        elif _is_tried(num_tokens):
            self._note(self._of(num_tokens), num_added, num_cells, seconds)

    @staticmethod
    def _note(tried: _Tried, num_added: int, num_cells: int, seconds: float) -> None:
        if not tried.pairs_left:
            tried.passes_since += 1
            if tried.passes_since >= PASSES_BETWEEN:
                tried.pairs_left, tried.pairs_begun, tried.passes_since = PAIRS, 0, 0
        elif num_added:
            tried.filled = seconds, num_cells
        else:
            _note_pair(tried, num_cells, seconds)

    def _of(self, num_tokens: int) -> _Tried:
        return self._tried.setdefault(num_tokens, _Tried())


def _is_tried(num_tokens: int) -> bool:
    return num_tokens < MOST_TRIED and num_tokens % AT_ONCE > 0


def _note_pair(tried: _Tried, num_cells: int, seconds: float) -> None:
    tried.pairs_begun += 1
    if tried.filled is not None and seconds > 0:
        filled_seconds, filled_cells = tried.filled
        if abs(num_cells - filled_cells) <= max(_ALIKE_CELLS, _ALIKE_SHARE * num_cells):
            tried.ratios.append(filled_seconds / seconds)
            tried.pairs_left -= 1
    if tried.pairs_begun >= MOST_PAIRS:
        # Too few pairs were comparable: their passes differ in more than the padding.
        tried.pairs_left = 0
    tried.filled = None


def default_padding(num_tokens: int, n_ubatch: int) -> int:
    """Returns how many tokens to add to fill a group of four if nothing was measured.

    Adding one token usually pays; two pay only alongside tokens that fill another group.
    """
    last = num_tokens % n_ubatch
    missing = -last % AT_ONCE
    pays = missing == 1 or (missing == 2 and last > AT_ONCE)
    return missing if pays and last + missing <= n_ubatch else 0
