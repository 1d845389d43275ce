"""The engine process on a machine that runs short of memory again and again, by a seed: to be killed besides.

    python -m tests.helpers.stressed_engine SEED

It is `python -m engine` in all but these: its embedding model is of no size (quick_stores.py), so that it is there in a
moment; some passes of the model find no room to compute, now and then two in a row; the system says that memory is
short in some of the looks that are taken at it; and the clock of the loop over memory runs faster, so that things are
given up and taken back within a life of seconds. Each life draws from the seed and its number in the data folder.
"""

from __future__ import annotations

import sys

from engine.stdio import take_stdout

if __name__ == "__main__":
    _protocol_stream = take_stdout()

import logging
import os
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

from engine import __main__ as process
from engine import adapting, assembly
from engine.generation import context
from engine.memory import pressure
from engine.memory.pressure import Stalls
from tests.helpers.quick_stores import use_quick_stores

LIVES = "lives"
# Files in the data folder that are as long as what happened was frequent, in all lives.
REFUSED, SHORT = "refused-passes", "short-memory"
# Of the model's passes, and of the looks at the machine.
NO_ROOM_SHARE, AGAIN_SHARE, SHORT_SHARE = 1 / 150, 1 / 4, 1 / 6
# A second of the loop over memory passes in this part of one, and it looks as often.
SPEED = 20.0
_NO_MEMORY = -2


def stress(chance: random.Random, home: Path) -> None:
    """Has everything that is begun from now on meet a machine that runs short."""
    use_quick_stores(setattr)
    _refuse_passes(chance, home / REFUSED)
    pressure._StallFile.read = lambda _: _stalls(chance, home / SHORT)
    # What waits counts, however much is left.
    pressure.LITTLE_LEFT = pressure.VERY_LITTLE_LEFT = 1.0
    adapting.START_SECONDS = adapting.START_SECONDS / SPEED
    adapting.LOOK_SECONDS, adapting.IDLE_LOOK_SECONDS = 0.2, 0.2
    assembly.Adapting = partial(adapting.Adapting, clock=lambda: time.monotonic() * SPEED)


def _refuse_passes(chance: random.Random, count: Path) -> None:
    """Has llama.cpp say at some passes that an allocation failed; nothing of those is computed."""
    decode = context.llama.llama_decode
    was_refused = False

    def refusing(*arguments: Any) -> int:
        nonlocal was_refused
        was_refused = chance.random() < (AGAIN_SHARE if was_refused else NO_ROOM_SHARE)
        if was_refused:
            _count(count)
            return _NO_MEMORY
        return int(decode(*arguments))

    context.llama.llama_decode = refusing


def _stalls(chance: random.Random, count: Path) -> Stalls:
    if chance.random() >= SHORT_SHARE:
        return Stalls()
    _count(count)
    return Stalls(some=0.5, full=0.2 if chance.random() < 1 / 2 else 0.0)


def _count(file: Path) -> None:
    with file.open("ab") as counted:
        counted.write(b".")


def next_life(home: Path) -> int:
    """How many lives there were on this data folder, with this one."""
    file = home / LIVES
    life = (int(file.read_text()) if file.exists() else 0) + 1
    home.mkdir(parents=True, exist_ok=True)
    file.write_text(str(life))
    return life


if __name__ == "__main__":
    try:
        home = Path(os.environ["RAGDOLL_HOME"])
        stress(random.Random(f"{sys.argv[1]}/{next_life(home)}"), home)
        exit_code = process.main(_protocol_stream)
    except process._Terminated:
        exit_code = 0
    except Exception:
        logging.exception("the engine cannot go on")
        exit_code = 1
    logging.shutdown()
    os._exit(exit_code)
