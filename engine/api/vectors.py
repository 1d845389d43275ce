"""Embeddings for another application: a few texts at a time, so that others get their turn and the client can leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from engine.api.requests import EmbeddingsRequest
from engine.embedding import Embedded, EmbeddingModel
from engine.engine import Engine
from engine.errors import BadRequest, Cancelled, ModelNotFound

# A few full batches, which take a slow computer seconds with a large model.
SLICE_TEXTS, SLICE_CHARACTERS = 64, 16_384
# How often a waiting request checks whether the server is ending.
_LOOK_S = 0.2


def wanted_of(model: EmbeddingModel | None, wanted: EmbeddingsRequest) -> EmbeddingModel:
    """The library's embedding model, if it is the requested one.

    Raises:
        ModelNotFound: There is none, or another one.
        BadRequest: Its vectors have another length.
    """
    if model is None:
        raise ModelNotFound("There is no embedding model here.", "Choose one in Ragdoll's settings.")
    if wanted.model not in ("", model.name):
        sentence = f"There is no embedding model called {wanted.model!r} here."
        raise ModelNotFound(sentence, f"There is {model.name!r}.")
    if wanted.dimensions not in (None, model.dimensions):
        raise BadRequest(
            f"Vectors of {model.name} have {model.dimensions} dimensions; no other number is available.",
            "Send the request without dimensions.",
        )
    return model


async def embedded(
    engine: Engine, texts: Sequence[str], model: EmbeddingModel, is_ending: Callable[[], bool]
) -> list[Embedded]:
    """The vectors of all texts, in their order.

    Raises:
        Cancelled: The server ends before all are done.
        EmbedderUnavailable: The model cannot be loaded.
        ModelNotFound: The model changed meanwhile.
    """
    slices = list[Embedded]()
    for some in in_slices(texts):
        slices.append(await _unless_ending(asyncio.wrap_future(engine.embed(some)), is_ending))
        if slices[-1].model != model.name or slices[-1].model_identity != slices[0].model_identity:
            raise ModelNotFound(
                "The library has moved to another embedding model meanwhile.",
                "Embed all texts again, including earlier ones.",
            )
    return slices


def in_slices(texts: Sequence[str]) -> Iterator[list[str]]:
    """Slices of texts that are embedded together; a very long text is a slice by itself."""
    some, num_characters = list[str](), 0
    for text in texts:
        if some and (len(some) >= SLICE_TEXTS or num_characters + len(text) > SLICE_CHARACTERS):
            yield some
            some, num_characters = [], 0
        some.append(text)
        num_characters += len(text)
    if some:
        yield some


async def _unless_ending(future: asyncio.Future[Embedded], is_ending: Callable[[], bool]) -> Embedded:
    try:
        while not (is_ending() or future.done()):
            await asyncio.wait([future], timeout=_LOOK_S)
        # The engine cancels what it has not begun when it closes.
        if future.cancelled() or not future.done():
            raise Cancelled("Ragdoll has stopped embedding.")
        return future.result()
    finally:
        future.cancel()
