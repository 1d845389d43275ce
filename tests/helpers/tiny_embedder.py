"""A sentence-transformers model of no size with random weights, and the tokenizer of the default one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from engine.config import EmbedderSettings
from engine.embedder import resolve


def write_tiny_embedder(folder: Path) -> Path:
    """A plain BERT of two layers in `folder`, which is made. Texts of the same words have near vectors."""
    import torch
    from transformers import BertConfig, BertModel

    shutil.copytree(resolve(EmbedderSettings()).folder, folder, ignore=shutil.ignore_patterns("*.safetensors", ".git*"))
    torch.manual_seed(5)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    layers = BertModel(BertConfig(vocab_size=30522, max_position_embeddings=300, initializer_range=0.3, **sizes))
    layers.save_pretrained(folder)
    pooling = folder / "1_Pooling" / "config.json"
    said = json.loads(pooling.read_text(encoding="utf-8"))
    pooling.write_text(json.dumps({**said, "word_embedding_dimension": 32}), encoding="utf-8")
    return folder
