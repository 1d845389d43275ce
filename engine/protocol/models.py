"""Requests about models and memory: what can answer, what does, and who holds which bytes."""

from __future__ import annotations

from pydantic import Field

from engine.core import PathText, Span, Tier
from engine.protocol.message import Message, Method, Nothing


class ModelFile(Message):
    """A GGUF file; `n_gpu_layers` None lets the plan choose."""

    path: PathText
    n_gpu_layers: int | None = None


class ModelEntry(Message):
    """A model that the picker offers; `problem` says why it cannot be used ("" when it can)."""

    path: PathText
    name: str
    architecture: str = ""
    file_bytes: int = 0
    num_layers: int = 0
    trained_context: int = 0
    planned_gpu_layers: int = 0
    fit: str = ""
    problem: str = ""


class ModelsReply(Message):
    """`current` is the path the settings name, "" for extractive answers only."""

    models: tuple[ModelEntry, ...]
    current: PathText


class TierSnapshot(Message):
    """One tier of memory: what it holds in all, what other programs hold, and our spans."""

    tier: Tier
    name: str
    capacity_bytes: int
    other_bytes: int
    spans: tuple[Span, ...] = ()

    @property
    def free_bytes(self) -> int:
        held = sum(span.num_bytes for span in self.spans)
        return max(0, self.capacity_bytes - self.other_bytes - held)


class MemoryReply(Message):
    """`counters` are rates and gauges by name ("tokens_per_s"); `decisions` the newest first, in words."""

    tiers: tuple[TierSnapshot, ...]
    counters: dict[str, float] = Field(default_factory=dict)
    decisions: tuple[str, ...] = ()


MODELS = Method("models.list", Nothing, ModelsReply)
MODELS_ADD = Method("models.add", ModelFile, ModelEntry)
MODELS_FORGET = Method("models.forget", ModelFile, Nothing)
MODELS_USE = Method("models.use", ModelFile, Nothing)
MODELS_UNLOAD = Method("models.unload", Nothing, Nothing)
MEMORY = Method("memory.get", Nothing, MemoryReply)
