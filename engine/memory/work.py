"""Work: what one pass over the layers of a model does, in bytes, by place; the profile predicts how long it takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """What one pass over the layers does, in bytes; `token_bytes` are weights times the tokens they are computed for.

    `streamed_bytes` come through a ring of `ring_slots` slots while others are computed, `mapped_bytes` are read where
    they are touched, `copied_bytes` go from memory to a device: from page-locked memory, except for weights that are
    not repacked. `hops` counts the changes between processor and device.
    """

    processor_bytes: float = 0.0
    processor_token_bytes: float = 0.0
    device_bytes: float = 0.0
    device_token_bytes: float = 0.0
    streamed_bytes: float = 0.0
    mapped_bytes: float = 0.0
    copied_bytes: float = 0.0
    hops: int = 0
    ring_slots: int = 0
    is_repacked: bool = True
