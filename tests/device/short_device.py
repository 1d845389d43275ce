"""Loads a model, and answers, on a device that refuses large buffers: a process of its own, as a driver looks once.

python -m tests.device.short_device MODEL QUESTION FOLDER [BYTES]

With BYTES, the engine believes that so many are free, whatever others have taken since it looked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.events import MemoryShort
from engine.generation import shared_resources
from engine.memory.devices import probe_devices
from tests.device.conftest import PATIENCE_S, DeviceDesk


def main(model: Path, question: str, folder: Path, believed_bytes: int | None = None) -> None:
    """Prints what was given up, what was told of it, and the answer."""
    if believed_bytes is not None:
        shared_resources.probe_devices = lambda: tuple(
            replace(one, free_bytes=believed_bytes) for one in probe_devices()
        )
    desk = DeviceDesk(folder, n_ubatch=128)
    if believed_bytes is not None:
        # As by default: what is kept free is what others may take.
        memory = desk.settings.memory.model_copy(update={"device_reserve_bytes": 512 * 2**20})
        desk.settings = desk.settings.model_copy(update={"memory": memory})
    placement = desk.use(model)
    desk.begin(question)
    text = desk.text_of(question)
    told = {
        "given_up": [rung.kind for rung in desk.loader.loaded_now.plan.given_up],
        "told": [event.sentence for event in desk.events if isinstance(event, MemoryShort)],
        "n_gpu_layers": placement.n_gpu_layers,
        "decision": desk.loader.decision,
        "text": text,
    }
    desk.worker.stop()
    json.dump(told, sys.stdout)


def run(model: Path, question: str, folder: Path, most_bytes: int) -> dict[str, Any]:
    """The same, from another process; no buffer on a Vulkan device may be larger than `most_bytes`."""
    return _told([str(model), question, str(folder)], {"GGML_VK_FORCE_MAX_BUFFER_SIZE": str(most_bytes)})


def run_believing(model: Path, question: str, folder: Path, believed_bytes: int) -> dict[str, Any]:
    """The same, from another process that believes so many bytes to be free."""
    return _told([str(model), question, str(folder), str(believed_bytes)], {})


def _told(arguments: list[str], changed: dict[str, str]) -> dict[str, Any]:
    environment = {**os.environ, **changed}
    command = [sys.executable, "-m", "tests.device.short_device", *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=PATIENCE_S, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), *map(int, sys.argv[4:]))
