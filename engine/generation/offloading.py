"""From how many tokens on a card computes layers that lie in memory: told to llama.cpp before its backends start.

Such layers are copied to the card for passes of 32 tokens and more, by llama.cpp's own rule, whatever the machine. From
page-locked memory that is sooner done than computing four tokens: on an H100, four answers of a 32B model with 22 of 64
layers on the card are written at 15.5 tokens a second that way, and at 7.0 by the rule.

A backend reads it once, when it starts. It cannot differ by model, and of a mixture a step touches few experts: where
one is chosen, the rule stays.
"""

from __future__ import annotations

import os

from engine.core import ModelShape
from engine.memory.profile import Profile

# Of all backends that copy (op_offload).
VARIABLE = "GGML_OP_OFFLOAD_MIN_BATCH"


def tell_backends(profile: Profile, shape: ModelShape | None) -> None:
    """For a model of this shape, or for whichever is loaded; what the user has set in the environment stays."""
    if shape is None or not shape.expert_share:
        os.environ.setdefault(VARIABLE, str(profile.offloads_from_tokens))
