"""Where the layers of a model live: a pure decision from header arithmetic and the device's free bytes.

A layer on the device brings its weights and its KV cells with it; the output head follows once all layers
are there. What is left over is the reserve for compute buffers, which llama.cpp allocates per context.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core import ModelShape, Tier

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Placement:
    """How many layers go to the GPU, what that takes there and in RAM (weights + KV), and why, in a sentence.

    `n_gpu_layers` counts as llama.cpp does: one more than the number of layers means the output head too.
    """

    n_gpu_layers: int
    num_layers: int
    gpu_bytes: int
    ram_bytes: int
    sentence: str

    def tier_of_layer(self, layer: int) -> Tier:
        """The last layers are the ones on the device."""
        return "gpu" if layer >= self.num_layers - self.n_gpu_layers else "ram"

    @property
    def tier_of_output(self) -> Tier:
        return "gpu" if self.n_gpu_layers > self.num_layers else "ram"


def place(
    shape: ModelShape,
    num_cells: int,
    device_free_bytes: int,
    ram_free_bytes: int,
    device_reserve_bytes: int,
    n_gpu_layers: int | None = None,
) -> Placement:
    """Fills the device with as many of the last layers as fit (llama.cpp offloads from the end).

    Args:
        shape: From the GGUF header.
        num_cells: KV cells of the context, in tokens.
        device_free_bytes: Free bytes over all devices; 0 without one.
        ram_free_bytes: What the system can still give, for the sentence.
        device_reserve_bytes: Kept free on the device for compute buffers and other programs.
        n_gpu_layers: The user's own choice, which overrides the arithmetic (capped at what the model has).
    """
    costs = _device_costs(shape, num_cells)
    if n_gpu_layers is None:
        chosen = _fitting(costs, device_free_bytes - device_reserve_bytes)
    else:
        chosen = min(n_gpu_layers, len(costs)) if device_free_bytes else 0
    gpu_bytes = sum(costs[:chosen])
    ram_bytes = shape.weight_bytes + shape.kv_bytes(num_cells) - gpu_bytes
    return Placement(
        n_gpu_layers=chosen,
        num_layers=shape.num_layers,
        gpu_bytes=gpu_bytes,
        ram_bytes=ram_bytes,
        sentence=_sentence(shape, chosen, ram_bytes, device_free_bytes, ram_free_bytes),
    )


def context_cells(shape: ModelShape, max_context: int) -> int:
    """n_ctx: what the model was trained for, and no more than the settings allow."""
    return min(shape.trained_context, max_context)


def _device_costs(shape: ModelShape, num_cells: int) -> list[int]:
    """Bytes each further unit of `n_gpu_layers` takes: layers from the last to the first, then the output head."""
    layers = zip(reversed(shape.layer_bytes), reversed(shape.kv_cell_bytes), strict=True)
    return [weights + cell * num_cells for weights, cell in layers] + [shape.output_bytes]


def _fitting(costs: list[int], budget_bytes: int) -> int:
    count = 0
    for cost in costs:
        budget_bytes -= cost
        if budget_bytes < 0:
            break
        count += 1
    return count


def _sentence(shape: ModelShape, chosen: int, ram_bytes: int, device_free_bytes: int, ram_free_bytes: int) -> str:
    on_gpu = min(chosen, shape.num_layers)
    if not device_free_bytes:
        where = f"All {shape.num_layers} layers in memory (no GPU found)"
    elif on_gpu == shape.num_layers:
        where = f"All {shape.num_layers} layers on the GPU"
    else:
        where = f"{on_gpu} of {shape.num_layers} layers on the GPU, the rest in memory"
    if ram_bytes > ram_free_bytes:
        return f"{where}; needs {ram_bytes / GIB:.1f} GB of memory and {ram_free_bytes / GIB:.1f} GB are free: slow."
    return f"{where}."
