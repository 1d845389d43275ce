"""The tokens that a sampler chooses among: all of them, or only the likeliest if it would take no other."""

from __future__ import annotations

from collections.abc import Collection

import llama_cpp.llama_cpp as llama
import numpy as np
from numpy.typing import NDArray

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_GROUP_TOKENS = 32


class Candidates:
    """llama.cpp's list of tokens with their logits, refilled for each choice and valid until the next.

    All samplers of a thread share one: it is as long as the vocabulary, and they choose one after the other.
    """

    def __init__(self, num_tokens: int) -> None:
        self._array = np.empty(num_tokens, _CANDIDATE)
        self._ids = np.arange(num_tokens, dtype=np.int32)
        self._data = self._array.ctypes.data_as(llama.llama_token_data_p)

    def all(self, logits: NDArray[np.float32]) -> llama.llama_token_data_array:
        """Returns every token with its logit."""
        return self._filled(self._ids, logits)

    def best(self, logits: NDArray[np.float32], count: int, others: Collection[int]) -> llama.llama_token_data_array:
        """Returns a superset of the `count` likeliest tokens, however the logits of `others` are changed."""
        if not others and count == 1:
            best = int(logits.argmax())
            return self._filled(self._ids[best : best + 1], logits[best : best + 1])
        # However unlikely the others become, `count` of this many tokens are likelier than any that is left out.
        wanted = count + len(others)
        num_groups = len(logits) // _GROUP_TOKENS
        if wanted > num_groups:
            return self.all(logits)
        # At least that many groups have a token that is likely enough; their maxima are found faster than the tokens.
        maxima = logits[: num_groups * _GROUP_TOKENS].reshape(_GROUP_TOKENS, num_groups).max(axis=0)
        is_likely = logits >= np.partition(maxima, -wanted)[-wanted]
        is_likely[list(others)] = True
        likely = np.flatnonzero(is_likely)
        return self._filled(self._ids[likely], logits[likely])

    def _filled(self, ids: NDArray[np.int32], logits: NDArray[np.float32]) -> llama.llama_token_data_array:
        self._array["id"][: len(ids)] = ids
        self._array["logit"][: len(ids)] = logits
        return llama.llama_token_data_array(self._data, len(ids), -1, False)
