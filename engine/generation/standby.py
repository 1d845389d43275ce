"""Standby: moves parts of a loaded model out of memory for another one, and back again, without ending any answer.

Weights leave first and return while the next pass is computed (weights/stream.py). If that is not enough, the context
follows: all that was computed is set aside. Weights that llama.cpp has put into its own order have a copy on disk, made
when they first leave (weights/copied.py) or, with streamed layers, when they are loaded (weights/packing.py); weights
on a device are closed, and read again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine.errors import NotStreamable, WeightsNotRead
from engine.generation.applying import Applied, Means, fold, unfold
from engine.generation.load_plan import LoadPlan
from engine.generation.loaded import LoadedModel
from engine.memory.listing import is_of_context


class Standby:
    """The standby of one loaded model, on the generation thread; the model computes only while it `is_there`."""

    def __init__(self) -> None:
        # Whether some weights have left, and whether the context is closed.
        self.is_away = self.is_folded = False

    @property
    def is_there(self) -> bool:
        return not (self.is_away or self.is_folded)

    def removable_bytes(self, loaded: LoadedModel) -> int:
        """Returns how many bytes of weights can leave memory; 0 if only the whole model can."""
        stream, copied = loaded.stream, loaded.copied
        if not loaded.model.is_open:
            # Its weights are not in memory.
            return 0
        if copied is not None:
            return copied.num_bytes if copied.is_there else 0
        # With layers on a device, little would leave.
        return stream.removable_bytes if stream is not None and not loaded.plan.placement.n_gpu_layers else 0

    def missing_bytes(self, loaded: LoadedModel) -> int:
        """Returns how many bytes of weights `come_back` reads into memory."""
        if not loaded.model.is_open:
            spans = loaded.plan.placement.spans
            return sum(span.num_bytes for span in spans if (span.owner, span.tier) == ("weights", "ram"))
        if loaded.copied is not None:
            return 0 if loaded.copied.is_there else loaded.copied.num_bytes
        return loaded.stream.missing_bytes if loaded.stream is not None and self.is_away else 0

    def needed_bytes(self, loaded: LoadedModel) -> int:
        """Returns the memory that `come_back` takes, including the context if it has left."""
        return self.missing_bytes(loaded) + (_context_bytes(loaded) if self.is_folded else 0)

    def leave(self, loaded: LoadedModel, means: Means, num_bytes: int) -> None:
        """Makes at least `num_bytes` of weights leave memory, if there are that many; copied weights leave as a whole.

        Raises:
            NotStreamable: They cannot leave.
        """
        if not loaded.model.is_open:
            return
        if loaded.copied is not None:
            try:
                loaded.copied.leave(means.budgets().disk_bytes, partial(means.goes_on, 0.0))
            except OSError as error:
                raise NotStreamable(f"Weights could not be written to the disk: {error.strerror or error}.") from error
            self.is_away = True
            means.leases.show_copied(is_there=False)
        elif loaded.stream is not None:
            self.is_away = True
            loaded.stream.go_away(num_bytes)

    def fold(
        self,
        loaded: LoadedModel,
        means: Means,
        *,
        keeps_what_was_read: bool = True,
        keeps_weights: bool = False,
        closes_weights: bool = False,
    ) -> None:
        """Makes the context leave memory, and by default the weights as well.

        Args:
            loaded: The model.
            means: What is needed to change its placement.
            keeps_what_was_read: Whether kept KV stays in memory; otherwise only what is on disk stays.
            keeps_weights: Whether weights that could leave stay for now.
            closes_weights: Whether the weights are closed although they could leave.
        """
        can_leave = self.removable_bytes(loaded) > 0 or self.is_away
        if not self.is_folded:
            self.is_folded = True
            fold(loaded, means, keeps_weights=can_leave and not closes_weights)
            if not keeps_what_was_read:
                loaded.keeper.set_budgets(0, 0)
        elif closes_weights and loaded.model.is_open:
            loaded.close_weights()
            means.leases.release_weights()
        if loaded.model.is_open and not (self.is_away or keeps_weights):
            self.leave(loaded, means, self.removable_bytes(loaded))

    def come_back(self, loaded: LoadedModel, placed_again: Callable[[], LoadPlan], means: Means) -> Applied | None:
        """Returns all of the model to memory, placed as before or as there is room now.

        Args:
            loaded: The model.
            placed_again: Returns its present plan, if it has to be read again.
            means: What is needed to change its placement.

        Returns:
            The model with its new context; None if only weights had left.

        Raises:
            ModelError: It could not be loaded in any way; it is closed.
            RagdollError: The parts that left could not be read; another try may succeed.
        """
        is_open = loaded.model.is_open
        if is_open:
            # Does nothing if no weights left.
            _bring_weights(loaded, means)
            self.is_away = False
        if not self.is_folded:
            return None
        applied = unfold(loaded, loaded.plan if is_open else placed_again(), means)
        self.is_away = self.is_folded = False
        return applied


def _bring_weights(loaded: LoadedModel, means: Means) -> None:
    if loaded.copied is not None:
        means.leases.show_copied(is_there=True)
        try:
            loaded.copied.come_back(partial(means.goes_on, 0.0))
        except OSError as error:
            raise WeightsNotRead(
                f"A part of the model could not be read from the disk: {error.strerror or error}.",
                "Look whether the disk is in order, then ask again.",
            ) from error
    if loaded.stream is not None:
        loaded.stream.come_back()


def _context_bytes(loaded: LoadedModel) -> int:
    """Returns the memory of a context's cells, states and buffers according to its plan."""
    spans = loaded.plan.placement.spans
    return sum(span.num_bytes for span in spans if span.tier == "ram" and is_of_context(span))
