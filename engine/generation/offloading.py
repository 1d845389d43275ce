"""From how many tokens on a card computes layers that lie in memory: told to llama.cpp before its backends start.

Such layers are copied to the card for passes of 32 tokens and more, by llama.cpp's own rule, whatever the machine. From
page-locked memory that is sooner done than computing four tokens: on an H100, four answers of a 32B model with 22 of 64
layers on the card are written at 15.5 tokens a second that way, and at 7.0 by the rule.

A backend reads it once, when it starts, so it cannot differ by model: it follows from the one that is chosen then. Of a
mixture a step touches few experts and all would be copied: there, and where none is chosen, the rule stays.
"""

from __future__ import annotations

import os

from engine.core import ModelShape
from engine.memory.profile import USUAL_OFFLOADED_TOKENS, Profile

# Of all backends that copy (op_offload).
VARIABLE = "GGML_OP_OFFLOAD_MIN_BATCH"


def tell_backends(profile: Profile, shape: ModelShape | None) -> int:
    """For a model of this shape, None for none; what the user has set in the environment stays. What holds now."""
    if shape is not None and not shape.expert_share:
        os.environ.setdefault(VARIABLE, str(profile.worth_offloading_tokens))
    return offloaded_from()


def offloaded_from() -> int:
    """From how many tokens on backends copy, by what they were told or will be."""
    try:
        return int(os.environ[VARIABLE])
    except (KeyError, ValueError):
        return USUAL_OFFLOADED_TOKENS
