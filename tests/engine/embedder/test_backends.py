"""Tests for engine.embedder.backends: what stays behind of a batch."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

MIB = 2**20
# In a process of its own: the libraries read how much they may keep once, and nothing else allocates there meanwhile.
SHAPES = """
import sys
from engine.config import EmbedderSettings
from engine.embedder import backends, resolve
from engine.memory.heap import lean_heap, heap
lean_heap()
model = backends.load(resolve(EmbedderSettings()))
if "bfloat16" not in backends.formats_worth_trying():
    sys.exit("no bfloat16 here")
model = model.with_number_format("bfloat16")
def used(lengths):
    for length in lengths:
        model.encode(["tenant " * length], is_question=False)
    return heap().used_bytes
print(*(used(range(first, first + 20)) for first in (4, 24, 44)))
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C allocator is none of glibc's"
)
def test_compiled_kernels_are_not_kept_for_every_shape_of_a_batch():
    done = subprocess.run([sys.executable, "-c", SHAPES], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode and "no bfloat16 here" in done.stderr:
        pytest.skip("this processor computes no bfloat16, for which kernels are compiled")
    assert done.returncode == 0, done.stderr
    first, second, third = map(int, done.stdout.split())
    # Twenty shapes leave 36 MiB behind where the libraries keep what they like.
    assert second - first < 12 * MIB
    assert third - second < 6 * MIB
