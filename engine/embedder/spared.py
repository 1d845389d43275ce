"""Skipped imports: modules that the embedder's libraries import only for training and evaluation.

SciPy and scikit-learn have 640 modules: 50 MB of objects, 25 MB of files and a second at each start, for a few
functions that compare labels or measure errors. While the embedder's libraries are imported, these packages are
replaced by empty placeholders; a later import of the packages themselves works normally.
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
    """Makes this thread import placeholders for these packages within the block, unless they are loaded already.

    Imports of other threads are not affected, except of the same modules at the same time.
    """
    absent = frozenset(name for name in packages if name not in sys.modules)
    finder = _Nothing(absent)
    # A new list, because another thread may be iterating over the old one.
    sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        sys.meta_path = [one for one in sys.meta_path if one is not finder]
        for name, module in list(sys.modules.items()):
            if isinstance(module, _Named):
                del sys.modules[name]


class _Named(ModuleType):
    """A placeholder module; every attribute is an empty class."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - every package has one, and it is never modified

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__module__": self.__name__})


class _Nothing(MetaPathFinder, Loader):
    """Finds placeholder modules for some packages, only on the thread that created it."""

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
        """Does nothing, because a placeholder has no code."""
