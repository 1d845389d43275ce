"""Accelerate's disk offload through transformers, used as documented: layers that do not fit stay on the disk.

Runs as a side (side_process.py) in an environment that has both. Settings: `folder` of the model (llama_weights.py),
`limit_bytes`, `num_threads`, and `work`, a folder for its own files. Inference runs on the processor; `max_memory` for
"cpu" is what the limit leaves once the libraries are loaded, minus the working memory of a forward pass.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench import process_marks
from tests.bench.confined import Group
from tests.bench.measured_answers import MeasuredAnswers
from tests.bench.side_process import Said, group_of, serve

# A layer that was read is held twice, as pages of the file and as a tensor, while the next one is being read.
_LAYERS_IN_FLIGHT = 3
_ACTIVATION_BYTES = 160 * 2**20


class AccelerateSide:
    """A dispatched model that generates greedily."""

    def __init__(self, settings: Said, group: Group) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(settings["num_threads"])
        torch.set_grad_enabled(False)
        self._group, self._torch = group, torch
        room = memory_room(Path(settings["folder"]), settings["limit_bytes"], group.usage().held_bytes)
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            settings["folder"],
            dtype=torch.bfloat16,
            device_map="auto",
            max_memory={"cpu": room},
            offload_folder=str(Path(settings["work"]) / "offload"),
        )
        self._model.eval()

    @property
    def on_disk_share(self) -> float:
        """Returns the share of placed modules on the disk; a model that is wholly in memory has no device map."""
        homes = list(getattr(self._model, "hf_device_map", {}).values())
        return sum(home == "disk" for home in homes) / len(homes) if homes else 0.0

    def write(self, prompt: Sequence[int], num_tokens: int) -> MeasuredAnswers:
        """Generates `num_tokens` tokens; prompt tokens are taken modulo the vocabulary, which is smaller here."""
        known = self._model.config.vocab_size
        begun = time.perf_counter()
        said = self._model(self._torch.tensor([[token % known for token in prompt]]), use_cache=True)
        answer = [int(said.logits[0, -1].argmax())]
        read_seconds, before = time.perf_counter() - begun, process_marks.take(self._group)
        pass_seconds = []
        while len(answer) < num_tokens:
            begun = time.perf_counter()
            last = self._torch.tensor([answer[-1:]])
            said = self._model(last, past_key_values=said.past_key_values, use_cache=True)
            answer.append(int(said.logits[0, -1].argmax()))
            pass_seconds.append(time.perf_counter() - begun)
        marks = process_marks.take(self._group).since(before)
        return MeasuredAnswers((tuple(answer),), read_seconds, tuple(pass_seconds), len(pass_seconds), marks)


def memory_room(folder: Path, limit_bytes: int, held_bytes: int) -> int:
    """Returns how many bytes of weights may stay in memory when `held_bytes` are in use already."""
    layer_bytes = _largest_layer_bytes(folder)
    return max(0, limit_bytes - held_bytes - _LAYERS_IN_FLIGHT * layer_bytes - _ACTIVATION_BYTES)


def _largest_layer_bytes(folder: Path) -> int:
    with (folder / "model.safetensors").open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    layers: dict[str, int] = {}
    for name, tensor in header.items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            # `model.layers.7.mlp…` belongs to layer 7; every other tensor counts by itself.
            layer = name.split(".")[2] if ".layers." in name else name
            layers[layer] = layers.get(layer, 0) + end - begin
    return max(layers.values())


def prepare(settings: Said) -> Callable[[Said], Said]:
    side = AccelerateSide(settings, group_of(settings))

    def answer(asked: Said) -> Said:
        if not asked:
            return {"on_disk_share": side.on_disk_share}
        return side.write(asked["prompts"][0], asked["num_tokens"]).told()

    return answer


if __name__ == "__main__":
    serve(prepare)
