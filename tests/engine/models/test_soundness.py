"""Tests for engine.models.soundness."""

from __future__ import annotations

from typing import Any

import pytest

from engine.models.soundness import fault_of, fault_of_vocabulary

BYTES = [b"<0x%02X>" % byte for byte in range(256)]


def metadata(**changes: Any) -> dict[str, Any]:
    sound = {
        "block_count": 2,
        "embedding_length": 64,
        "attention.head_count": 4,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": 16,
    }
    named = {name.replace("__", "."): value for name, value in changes.items()}
    kind = named.pop("kind", "qwen2")
    return {"general.architecture": kind} | {f"{kind}.{name}": value for name, value in (sound | named).items()}


def test_nothing_is_wrong_with_a_sound_header():
    assert fault_of(metadata()) == ""
    assert fault_of(metadata(rope__scaling__type="yarn", attention__sliding_window=4096)) == ""
    assert fault_of(metadata(attention__head_count=[4, 8])) == ""


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"block_count": 0}, "no layers"),
        ({"block_count": 513}, "no layers"),
        ({"nextn_predict_layers": 3}, "look ahead"),
        ({"attention__layer_norm_rms_epsilon": -1e-5}, "norms by"),
        ({"attention__layer_norm_rms_epsilon": float("nan")}, "norms by"),
        ({"attention__layer_norm_epsilon": float("inf")}, "norms by"),
        ({"rope__scaling__type": "yarm"}, "(yarm)"),
        ({"rope__dimension_count": 8}, "parts of its heads"),
        ({"attention__key_length": 32}, "parts of its heads"),
        ({"attention__value_length": 8}, "parts of its heads"),
        ({"attention__sliding_window": 2**31}, "further than any"),
    ],
)
def test_what_would_end_the_process_is_named(changes: dict[str, Any], fault: str):
    assert fault in fault_of(metadata(**changes))


def test_models_that_turn_parts_of_their_heads_may_do_so():
    assert fault_of(metadata(kind="phi2", rope__dimension_count=8)) == ""


@pytest.mark.parametrize(
    ("experts", "is_sound"),
    [
        ({}, True),
        ({"expert_count": 8, "expert_used_count": 2}, True),
        ({"expert_count": 8, "expert_used_count": [2, 4]}, True),
        ({"expert_count": 8, "expert_used_count": 2, "expert_group_count": 4, "expert_group_used_count": 2}, True),
        ({"expert_count": 8}, False),
        ({"expert_count": 8, "expert_used_count": 9}, False),
        ({"expert_count": 2000, "expert_used_count": 2}, False),
        ({"expert_used_count": 2}, False),
        ({"expert_count": 8, "expert_used_count": 2, "expert_group_count": 3, "expert_group_used_count": 2}, False),
        ({"expert_count": 8, "expert_used_count": 2, "expert_group_count": 4, "expert_group_used_count": 4}, False),
        ({"expert_count": 8, "expert_used_count": 2, "expert_group_count": 8}, False),
    ],
)
def test_experts_must_be_there_to_be_used(experts: dict[str, Any], is_sound: bool):
    assert (fault_of(metadata(**experts)) == "") is is_sound


def test_no_token_may_be_there_twice_but_those_without_a_text():
    gpt = {"tokenizer.ggml.model": "gpt2"}
    assert fault_of_vocabulary(gpt, [b"a", b"b", b"", b""]) == ""
    assert "twice" in fault_of_vocabulary(gpt, [b"a", b"b", b"a"])


def test_a_vocabulary_of_pieces_has_all_bytes_in_one_form_or_the_other():
    pieces = {"tokenizer.ggml.model": "llama"}
    assert fault_of_vocabulary(pieces, BYTES) == ""
    assert fault_of_vocabulary(pieces, [*BYTES[:65], b"A", *BYTES[66:]]) == ""
    assert "single bytes" in fault_of_vocabulary(pieces, BYTES[:-1])
    assert fault_of_vocabulary({"tokenizer.ggml.model": "gpt2"}, BYTES[:-1]) == ""
