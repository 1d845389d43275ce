"""Whether a model can be loaded here: tried in a process of its own, which may fail or be killed.

`python -m engine.embedder.loadable embedder|reranker FOLDER` exits with 0 if it can; otherwise its last line on stderr
is the reason. If it exits with `NOT_TRIED` or is killed, nothing is known about the model.
"""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Literal

from engine import own_modules
from engine.config import EmbedderSettings
from engine.embedder import backends, reranker, reranker_spec
from engine.embedder.spec import resolve
from engine.errors import EmbedderUnavailable, EmbedderUntried

Kind = Literal["embedder", "reranker"]
_LOOK_SECONDS = 0.2
NOT_TRIED = 3
_NO_MEMORY = re.compile("not enough memory|out of memory|can't allocate memory", re.IGNORECASE)
_WAY_OUT = "Choose another one. If memory was short, get it again when fewer programs are open."
_TRY_AGAIN = "Get it again when fewer programs are open: what was downloaded is kept."


def tried(folder: Path, kind: Kind = "embedder") -> Generator[None, None, None]:
    """Tries the model in a folder, and yields regularly; closing the generator ends the trial.

    Raises:
        EmbedderUnavailable: It cannot be loaded, or contradicts its files.
        EmbedderUntried: The trial did not finish, for lack of memory for example; nothing is known about the model.
    """
    with subprocess.Popen(
        own_modules.command_of("engine.embedder.loadable", kind, str(folder)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=own_modules.environment(),
    ) as process:
        try:
            while True:
                try:
                    _, said = process.communicate(timeout=_LOOK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    yield
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        reason = said.decode(errors="replace").strip().rpartition("\n")[2]
        # A process killed for lack of memory gives no reason, and on Windows there is no signal number.
        if process.returncode < 0 or process.returncode == NOT_TRIED or not reason:
            raise EmbedderUntried(
                f"{folder.name} was downloaded, but could not be tried: {reason or 'that was ended.'}", _TRY_AGAIN
            )
        raise EmbedderUnavailable(f"{folder.name} was downloaded, but cannot be used: {reason}", _WAY_OUT)


def is_the_systems(error: BaseException) -> bool:
    """Returns whether an error is due to the system, such as lack of memory, and not to the model."""
    cause: BaseException | None = error
    while cause is not None:
        # Libraries raise OSErrors without a number for missing parts of a model.
        if isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno not in (None, errno.ENOENT)):
            return True
        # torch raises RuntimeError for everything.
        if isinstance(cause, RuntimeError) and _NO_MEMORY.search(str(cause)):
            return True
        cause = cause.__cause__
    return False


def _try_embedder(folder: Path) -> None:
    spec = resolve(EmbedderSettings(model=str(folder)))
    model = backends.load_light(spec) or backends.load(spec)
    made = model.encode(["A text."], is_question=False).shape[1]
    if made != spec.dimensions:
        raise EmbedderUnavailable(f"it makes vectors of {made} numbers, and says that they have {spec.dimensions}.", "")


def _try_reranker(folder: Path) -> None:
    reranker.check(reranker_spec.resolve(str(folder)))


_TRIALS: Mapping[str, Callable[[Path], None]] = {"embedder": _try_embedder, "reranker": _try_reranker}

if __name__ == "__main__":
    try:
        _TRIALS[sys.argv[1]](Path(sys.argv[2]))
    except EmbedderUnavailable as error:
        print(error.sentence, file=sys.stderr)
        sys.exit(NOT_TRIED if is_the_systems(error) else 1)
    except (MemoryError, RuntimeError) as error:
        if not is_the_systems(error):
            raise
        print("there is not enough memory.", file=sys.stderr)
        sys.exit(NOT_TRIED)
