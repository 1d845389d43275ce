"""Skipped imports: modules that the embedder's libraries import only for training and evaluation.

SciPy and scikit-learn are 640 modules: 50 MB of objects, 25 MB of files and a second, at each start, for a few names of
functions that compare labels or measure errors. While those libraries are imported, such names stand for nothing; who
imports the packages themselves afterwards gets them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NEVER_CALLED = frozenset({"scipy", "sklearn"})


@contextmanager
def spared(packages: frozenset[str] = NEVER_CALLED) -> Iterator[None]:
    """Has this thread import nothing in place of these packages in the block, but where they are there already.

    Other threads import as ever, unless they ask for the very modules that this one has just asked for.
    """
    absent = frozenset(name for name in packages if name not in sys.modules)
    finder = _Nothing(absent)
    # A list of its own: another thread may be going through the one that there was.
    sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        sys.meta_path = [one for one in sys.meta_path if one is not finder]
        for name, module in list(sys.modules.items()):
            if isinstance(module, _Named):
                del sys.modules[name]


class _Named(ModuleType):
    """A module of which every name is a class that nothing is an instance of."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - that of every package, and nobody adds to it

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__module__": self.__name__})


class _Nothing(MetaPathFinder, Loader):
    """Finds such modules in place of those of some packages, for the thread that made it."""

    def __init__(self, packages: frozenset[str]) -> None:
        self._packages, self._thread = packages, threading.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if threading.get_ident() != self._thread or name.partition(".")[0] not in self._packages:
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Named(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""
