"""What glibc's allocator does, looked at where nobody else takes or gives back memory."""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

import pytest

Seen = TypeVar("Seen")
needs_glibc = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C allocator is none of glibc's"
)


def in_a_new_process(looks: Callable[..., Seen], *arguments: object) -> Seen:
    """What it sees in a process of its own, which has no holes that it could fill; a function of a module."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(looks, *arguments).result()
