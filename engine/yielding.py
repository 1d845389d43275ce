"""Threads that yield: work that nobody waits for uses what other threads leave of the cores.

A low priority is not enough: beside llama.cpp's threads, which never sleep within a pass, a thread of the lowest
niceness still gets its turn, and the answer pays for it (14 % of the time of a search, 2 % this way; see
tests/bench/refresh.py). What is idle in a pass, between two tokens and where one thread waits for the other, is enough.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_NICEST = 19
_THREAD_PRIORITY_IDLE = -15
_QOS_CLASS_BACKGROUND = 0x09
# One busy Python thread makes a token 3-6 times slower at the default of 5 ms.
_SWITCH_INTERVAL_S = 0.0001

_this_thread = threading.local()


def switch_often() -> None:
    """Lets no thread of this process keep the interpreter for long while another wants it."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def yield_to_others() -> None:
    """Gives the calling thread, and those that it starts from now on, only idle cores; there is no way back."""
    _this_thread.is_yielding = True
    with suppress(OSError, AttributeError):
        if sys.platform == "win32":
            windows = ctypes.WinDLL("kernel32")
            windows.GetCurrentThread.restype = ctypes.c_void_p
            windows.SetThreadPriority(ctypes.c_void_p(windows.GetCurrentThread()), _THREAD_PRIORITY_IDLE)
        elif sys.platform == "darwin":
            ctypes.CDLL(None).pthread_set_qos_class_self_np(_QOS_CLASS_BACKGROUND, 0)
        else:
            # On Linux, both apply to the thread; if the policy is refused, the niceness remains.
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, _NICEST)
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def is_yielding() -> bool:
    """Returns whether the calling thread asked to yield; threads that do work for it do not."""
    return getattr(_this_thread, "is_yielding", False)


@contextmanager
def at_most_threads(most: int | None) -> Iterator[None]:
    """Limits how many threads do the calling thread's work in the block, itself included; None: no limit."""
    before = threads_allowed()
    _this_thread.most_threads = most
    try:
        yield
    finally:
        _this_thread.most_threads = before


def threads_allowed() -> int | None:
    """Returns how many threads may do the calling thread's work; None: no limit."""
    return 1 if is_yielding() else getattr(_this_thread, "most_threads", None)
