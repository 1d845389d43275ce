"""A cross-encoder of no size with random weights, and a tokenizer of a dozen words."""

from __future__ import annotations

from pathlib import Path

WORDS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "mutex", "guards", "bread", "what", "is", "notice", "period",
]  # fmt: skip


def write_tiny_reranker(folder: Path, num_labels: int = 1, intermediate_size: int = 16) -> Path:
    """A plain BERT of two layers in `folder`, which is made, that says how well two texts fit, or sorts them.

    It has 256 bytes of weights for each of `intermediate_size`.
    """
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    # Other weights each time would now and then score two texts alike.
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=intermediate_size, max_position_embeddings=64, num_labels=num_labels, initializer_range=0.5,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **special).save_pretrained(folder)
    return folder
