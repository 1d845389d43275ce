"""Which settings a loaded model follows: bounds of kept KV and reading ahead at once, the rest at the next load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.config import Settings
from engine.generation.kv_room import KVRoom, disk_room, ram_room
from engine.generation.load_plan import LoadPlan
from engine.memory.hardware import Hardware

# The parameters of a context cannot be changed after its creation; each with the words that the user reads for it.
_OF_A_LOAD = {
    "max_context": "the context",
    "parallel_answers": "answers at once",
    "kv_type": "the format of keys and values",
    "n_gpu_layers": "layers on the GPU",
    "num_threads": "threads",
    "n_batch": "tokens of a step",
    "n_ubatch": "tokens between two chances to stop",
}
# What a placement decides, by the settings in force when it is planned.
_OF_A_PLACEMENT = ("parallel_answers", "kv_type", "n_gpu_layers", "n_ubatch", "kv_ram_bytes", "kv_disk_bytes")


class InForce:
    """The settings that a loaded model follows; on the generation thread."""

    def __init__(self, plan: LoadPlan, *, has_own_layers: bool) -> None:
        """Begins with the settings it was loaded with.

        Args:
            plan: How it was loaded.
            has_own_layers: The number of layers on the GPU was chosen for this model, whatever the settings say.
        """
        self.plan, self._has_own_layers = plan, has_own_layers
        self._room, self._bounded_by = plan.room, plan.settings.generation

    @property
    def room(self) -> KVRoom:
        """How much may be kept, by the bounds that are in force."""
        return self._room

    def note_placed(self, plan: LoadPlan, settings: Settings | None) -> None:
        """Notes a new placement of the model: as planned by `settings`, or (None) what there was room for."""
        if settings is None:
            self.plan, self._room = replace(plan, settings=self.plan.settings), plan.room
            return
        now = {name: getattr(settings.generation, name) for name in _OF_A_PLACEMENT}
        generation = self.plan.settings.generation.model_copy(update=now)
        then = self.plan.settings.model_copy(update={"generation": generation, "memory": settings.memory})
        self.plan = replace(plan, settings=then)
        self._room, self._bounded_by = plan.room, generation

    def pending(self, settings: Settings) -> str:
        """Returns what has been changed and is not in force yet, in a sentence; "" if there is nothing."""
        then, now = self.plan.settings, settings
        changed = [
            words
            for name, words in _OF_A_LOAD.items()
            if getattr(then.generation, name) != getattr(now.generation, name)
            and not (name == "n_gpu_layers" and self._has_own_layers)
        ]
        if then.memory.device_reserve_bytes != now.memory.device_reserve_bytes:
            changed.append("memory kept free on the GPU")
        if not changed:
            return ""
        return f"Changed in the settings, and in force once the model is loaded again: {', '.join(changed)}."

    def bounds(self, settings: Settings, hardware: Callable[[], Hardware]) -> KVRoom | None:
        """Returns the room with the bounds that the settings have now; None if they have not changed.

        A bound that is left to the machine stays as it is, because the model itself and kept KV have taken part of what
        was free. `hardware` is called only when a bound has changed.
        """
        then, now = self._bounded_by, settings.generation
        keeps_ram, keeps_disk = then.kv_ram_bytes == now.kv_ram_bytes, then.kv_disk_bytes == now.kv_disk_bytes
        if keeps_ram and keeps_disk:
            return None
        machine = hardware()
        self._bounded_by = now
        self._room = replace(
            self._room,
            ram_bytes=self._room.ram_bytes if keeps_ram else ram_room(now, machine),
            disk_bytes=self._room.disk_bytes if keeps_disk else disk_room(now, machine),
        )
        return self._room
