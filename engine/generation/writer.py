"""Writes one answer with a loaded model: prefill in batches, then token by token until something ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.core import FinishReason, ModelShape, SamplingParams
from engine.generation.kv_cache import KVCache
from engine.generation.model import Context, Model
from engine.generation.sampler import ChainSampler, Sampler
from engine.generation.speaker import speaker_of
from engine.generation.streaming import TextStream
from engine.metrics import Timeline

MakeSampler = Callable[[Model, SamplingParams], Sampler]


@dataclass(slots=True)
class Writing:
    """How an answer came out; filled in while `Writer.write` runs."""

    text: str = ""
    finish_reason: FinishReason = "stop"
    was_cancelled: bool = False


class Writer:
    """A loaded model with its context, ready to answer; lives on the generation thread."""

    def __init__(
        self, model: Model, context: Context, shape: ModelShape, make_sampler: MakeSampler = ChainSampler
    ) -> None:
        self.model, self.context, self.shape = model, context, shape
        self.cache = KVCache(context)
        self._make_sampler = make_sampler
        self.speaker = speaker_of(model, "", context.num_cells)

    def write(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        timeline: Timeline,
        cancelled: threading.Event,
        writing: Writing,
    ) -> Iterator[str]:
        """Yields text as it becomes final; `writing` tells how it ended.

        Cancelling is looked at between batches of the prefill and between tokens.
        """
        timeline.prompt_tokens = len(prompt)
        timeline.mark("prefill_started")
        if not self._prefill(prompt, cancelled):
            writing.was_cancelled = True
            return
        sampler = self._make_sampler(self.model, params)
        try:
            for text in self._decode(sampler, params, timeline, cancelled, writing):
                writing.text += text
                yield text
        finally:
            sampler.close()

    def close(self) -> None:
        self.context.close()
        self.model.close()

    def _prefill(self, prompt: Sequence[int], cancelled: threading.Event) -> bool:
        start = self.cache.keep_prefix(prompt)
        for at in range(start, len(prompt), self.context.n_batch):
            if cancelled.is_set():
                return False
            self.cache.append(prompt[at : at + self.context.n_batch])
        return True

    def _decode(
        self,
        sampler: Sampler,
        params: SamplingParams,
        timeline: Timeline,
        cancelled: threading.Event,
        writing: Writing,
    ) -> Iterator[str]:
        stream = TextStream(params.stop)
        room = self.context.num_cells - self.cache.num_tokens
        writing.finish_reason = "length"
        for _ in range(min(params.max_tokens, room)):
            if cancelled.is_set():
                writing.was_cancelled = True
                break
            token = sampler.sample(self.context)
            timeline.mark("first_token")
            if self.model.ends(token):
                writing.finish_reason = "stop"
                break
            timeline.generated_tokens += 1
            if text := stream.feed(self.model.piece(token)):
                yield text
            if stream.is_stopped:
                writing.finish_reason = "stop"
                break
            self.cache.append([token])
        if text := stream.finish():
            yield text
