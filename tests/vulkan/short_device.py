"""Loads a model, and answers, on a device that refuses large buffers: a process of its own, as a driver looks once.

python -m tests.vulkan.short_device MODEL QUESTION FOLDER
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from engine.events import MemoryShort
from tests.vulkan.conftest import PATIENCE_S, DeviceDesk


def main(model: Path, question: str, folder: Path) -> None:
    """Prints what was given up, what was told of it, and the answer."""
    desk = DeviceDesk(folder, n_ubatch=128)
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
    """The same, from another process; no buffer on the device may be larger than `most_bytes`."""
    environment = {**os.environ, "GGML_VK_FORCE_MAX_BUFFER_SIZE": str(most_bytes)}
    command = [sys.executable, "-m", "tests.vulkan.short_device", str(model), question, str(folder)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=PATIENCE_S, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
