"""Passes of as many tokens are all computed alike, whichever way is faster: their logits are the same to the bit."""

from __future__ import annotations

import pytest

from engine.generation.fours import Fours, num_to_fours


def take_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is tried."""
    monkeypatch.setattr(Fours, "num_to_add", lambda self, num_tokens, n_ubatch, **_: num_to_fours(num_tokens, n_ubatch))
