"""Sets the number of tokens from which a GPU computes layers that are in RAM, before llama.cpp's backends start.

By default, llama.cpp copies such layers to the GPU for passes of 32 tokens and more, on any machine. From page-locked
memory this is faster even for four tokens: on an H100, four answers of a 32B model with 22 of 64 layers on the GPU are
written at 15.5 tokens a second that way, and at 7.0 by default.

A backend reads the value once, when it starts, so it cannot differ by model: the model that is chosen then determines
it. A step of a mixture of experts uses few experts, but all would be copied: for these, and without a model, the
default stays.
"""

from __future__ import annotations

import os

from engine.core import ModelShape
from engine.memory.profile import USUAL_OFFLOADED_TOKENS, Profile

# The variable is read by all backends that copy weights (op_offload).
VARIABLE = "GGML_OP_OFFLOAD_MIN_BATCH"


def tell_backends(profile: Profile, shape: ModelShape | None) -> int:
    """Sets the number for a model of this shape (None: no model), unless the user has; returns the value in force."""
    if shape is not None and not shape.expert_share:
        os.environ.setdefault(VARIABLE, str(profile.worth_offloading_tokens))
    return offloaded_from()


def offloaded_from() -> int:
    """Returns the number of tokens from which backends copy, as set now."""
    try:
        return int(os.environ[VARIABLE])
    except (KeyError, ValueError):
        return USUAL_OFFLOADED_TOKENS
