"""Passes of as many tokens are all computed alike, whichever way is faster: their logits are the same to the bit."""

from __future__ import annotations

import pytest

from engine.generation.batch_padding import BatchPadding, default_padding


def take_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is tried."""
    monkeypatch.setattr(
        BatchPadding, "num_to_add", lambda self, num_tokens, n_ubatch, **_: default_padding(num_tokens, n_ubatch)
    )
