"""A folder laid out like a sentence-transformers model, with a few bytes for weights: described, and not loaded."""

from __future__ import annotations

import json
from pathlib import Path


def write_small_model(folder: Path) -> Path:
    """Writes it to `folder`, which is made."""
    (folder / "1_Pooling").mkdir(parents=True)
    modules = [{"path": "", "type": "Transformer"}, {"path": "1_Pooling", "type": "Pooling"}, {"path": "2_Normalize"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config.json").write_text(json.dumps({"hidden_size": 48}))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32}))
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 4096)
    return folder
