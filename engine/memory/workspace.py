"""What llama.cpp allocates besides weights and cells: a compute buffer for the largest pass, and rows of logits.

It allocates them once for each context, for the worst case. The formula follows from the sizes that it reports, model
by model (a test compares it with the library): activations of a pass, the mask over all cells in 16 bits, and a row of
logits for each sequence. On a device they take that much. In main memory a compute buffer takes what is written to: no
pass has more tokens than `n_ubatch`, and none has more rows than tokens, or than the answers at once can have.
"""

from __future__ import annotations

from functools import cache

from engine.core import ModelShape

# All activations of a token that live at the same time, in multiples of its vector: four of them, and those of a
# feed-forward part that is at most four times as wide.
ACTIVATIONS = 16
FLOAT_BYTES, MASK_BYTES = 4, 2
# Each answer, and everything that is kept in cells, needs a sequence number; each number costs a row of logits, in the
# output and in the compute buffer. What is kept is passages and conversations, so there need not be more numbers than
# if each had this many cells on average.
LOGITS_BYTES, MIN_SEQUENCES, MAX_SEQUENCES = 128 * 2**20, 32, 255
CELLS_OF_A_SEQUENCE = 32
# A token that is written, and as many as may be drafted behind it.
ROWS_OF_AN_ANSWER = 1 + 64
# A context has one more sequence, of tokens that fill batches up (generation/batch_padding.py); llama.cpp allows 256.
ADDED_SEQUENCES = 1
_UNKNOWN_WIDTH = 4096
# A model that compresses what it has read into a state reserves one for each sequence, used or not: from a megabyte to
# 150. The maximum is enough for what is kept, and the minimum for running answers and what is loaded meanwhile.
MAX_STATES, MIN_STATES, STATES_BYTES = 16, 6, 2**29


def num_sequences(vocabulary_size: int, num_cells: int) -> int:
    """Returns how many sequence numbers a context of `num_cells` cells has."""
    return max(MIN_SEQUENCES, min(_affordable_rows(vocabulary_size), num_cells // CELLS_OF_A_SEQUENCE))


def num_states(shape: ModelShape, num_slots: int) -> int:
    """Returns how many sequences a context has of a model that keeps a state of each; 0 for all other models.

    Up to three of four may belong to running answers.
    """
    num_bytes = sum(shape.state_bytes)
    if not num_bytes:
        return 0
    return min(MAX_STATES, max(MIN_STATES, -(-num_slots * 4 // 3), STATES_BYTES // num_bytes))


@cache
def _affordable_rows(vocabulary_size: int) -> int:
    affordable = LOGITS_BYTES // (2 * FLOAT_BYTES * max(1, vocabulary_size))
    return max(MIN_SEQUENCES, min(MAX_SEQUENCES, affordable))


def compute_bytes(shape: ModelShape, n_ubatch: int, num_cells: int) -> int:
    """Returns the compute buffer on a device that computes layers."""
    num_tokens = _reserved_tokens(shape, n_ubatch, num_cells)
    return _compute(shape, num_tokens, num_cells, _rows(shape, num_cells))


def written_compute_bytes(shape: ModelShape, n_ubatch: int, num_cells: int, num_slots: int) -> int:
    """Returns the same buffer in main memory, with `num_slots` answers at once."""
    rows = min(n_ubatch, num_sequences(shape.vocabulary_size, num_cells), num_slots * ROWS_OF_AN_ANSWER)
    return _compute(shape, n_ubatch, num_cells, rows)


def _compute(shape: ModelShape, num_tokens: int, num_cells: int, num_rows: int) -> int:
    if not shape.num_layers:
        return 0
    width = shape.width or _UNKNOWN_WIDTH
    logits = num_rows * shape.vocabulary_size * FLOAT_BYTES
    return num_tokens * (width * ACTIVATIONS * FLOAT_BYTES + num_cells * MASK_BYTES) + logits


def input_bytes(shape: ModelShape, n_ubatch: int, num_cells: int) -> int:
    """Returns what stays in memory if a device computes all layers: the input vectors of a pass, and the mask."""
    width = shape.width or _UNKNOWN_WIDTH
    return _reserved_tokens(shape, n_ubatch, num_cells) * (2 * width * FLOAT_BYTES + num_cells * MASK_BYTES)


def _rows(shape: ModelShape, num_cells: int) -> int:
    return num_sequences(shape.vocabulary_size, num_cells) + ADDED_SEQUENCES


def _reserved_tokens(shape: ModelShape, n_ubatch: int, num_cells: int) -> int:
    """Returns the tokens that a pass reserves room for: llama.cpp reserves equally many of each sequence.

    It is computed as for a large context. A small one needs less, but for layers in memory a device takes more than its
    own activations: too little makes a load fail on a device, while main memory can be freed.
    """
    num_rows = _rows(shape, num_cells)
    return max(-(-n_ubatch // num_rows) * num_rows, _affordable_rows(shape.vocabulary_size) + ADDED_SEQUENCES)


def output_bytes(shape: ModelShape, num_cells: int) -> int:
    """Returns the rows of output logits in memory: all of them are written to when they are allocated."""
    return _rows(shape, num_cells) * shape.vocabulary_size * FLOAT_BYTES
