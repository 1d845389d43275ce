"""The number of tokens from which a card computes layers that lie in memory; set before llama.cpp's backends start.

Such layers are copied to the card for passes of 32 tokens and more, by llama.cpp's own rule, whatever the machine. From
page-locked memory, that is faster even for four tokens: on an H100, four answers of a 32B model with 22 of 64 layers on
the card are written at 15.5 tokens a second that way, and at 7.0 by the rule.

A backend reads it once, when it starts, so it cannot differ by model: it follows from the model that is chosen then. A
step of a mixture of experts uses few experts, and all would be copied: there, and without a model, the rule stays.
"""

from __future__ import annotations

import os

from engine.core import ModelShape
from engine.memory.profile import USUAL_OFFLOADED_TOKENS, Profile

# Read by all backends that copy (op_offload).
VARIABLE = "GGML_OP_OFFLOAD_MIN_BATCH"


def tell_backends(profile: Profile, shape: ModelShape | None) -> int:
    """Sets it for a model of this shape (None: no model), unless the user has set it; returns the value in force."""
    if shape is not None and not shape.expert_share:
        os.environ.setdefault(VARIABLE, str(profile.worth_offloading_tokens))
    return offloaded_from()


def offloaded_from() -> int:
    """The number of tokens from which backends copy, as set now."""
    try:
        return int(os.environ[VARIABLE])
    except (KeyError, ValueError):
        return USUAL_OFFLOADED_TOKENS
