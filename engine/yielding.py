"""Threads that yield: work that nobody waits for takes of the cores what all others leave."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import suppress

# Beside busy threads of ordinary priority it gets a thirtieth of a core: little is lost, and it comes to an end.
_NICER_BY, _NICEST = 15, 19
_THREAD_PRIORITY_LOWEST = -2
_QOS_CLASS_UTILITY = 0x11
# One busy Python thread makes a token 3-6 times slower at the default of 5 ms.
_SWITCH_INTERVAL_S = 0.0001


def switch_often() -> None:
    """Lets no thread of this process keep the interpreter for long while another wants it."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def yield_to_others() -> None:
    """Lowers the priority of the calling thread, and of those that it starts from now on; there is no way back."""
    with suppress(OSError, AttributeError):
        if sys.platform == "win32":
            windows = ctypes.WinDLL("kernel32")
            windows.GetCurrentThread.restype = ctypes.c_void_p
            windows.SetThreadPriority(ctypes.c_void_p(windows.GetCurrentThread()), _THREAD_PRIORITY_LOWEST)
        elif sys.platform == "darwin":
            ctypes.CDLL(None).pthread_set_qos_class_self_np(_QOS_CLASS_UTILITY, 0)
        else:
            thread = threading.get_native_id()
            nice = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(_NICEST, nice + _NICER_BY))
