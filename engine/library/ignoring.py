"""Ignore rules: what below a linked folder is no document, by habit of the system and by the user's own files.

A `.ragdollignore` in any folder applies to everything below it, in the syntax of `.gitignore`. A deeper file takes
precedence, and `!name` includes again what a rule above, or a built-in rule, leaves out. As with git, nothing below a
folder that is left out can be included again.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from pathspec import GitIgnoreSpec

from engine.config import IGNORE_FILE

IGNORED_FOLDERS = frozenset({"node_modules", "__pycache__", "lost+found", "$RECYCLE.BIN", "System Volume Information"})
# Locks of office programs, unfinished downloads (the finished file gets another name), and editors' backup copies,
# which would be quoted as if they were the current file.
_IGNORED_FILES = ("~$*", "*.part", "*.crdownload", "*~", "#*#")
_MAX_RULES_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that apply in one folder: those of its own file, then those of the folders above it."""

    specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    def within(self, folder: str) -> IgnoreRules:
        """Returns the rules of a folder below; those of its own file, if it has one, come first."""
        spec = _spec_of(folder)
        return self if spec is None else IgnoreRules(((folder, spec), *self.specs))

    def ignore(self, path: str, is_folder: bool) -> bool:
        """Returns whether an entry of the folder is left out."""
        for folder, spec in self.specs:
            relative = path[len(folder.rstrip(os.sep)) + 1 :] + ("/" if is_folder else "")
            verdict = spec.check_file(relative).include
            if verdict is not None:
                return verdict
        return _is_ignored_by_habit(os.path.basename(path), is_folder)


def ignored_below(root: str, path: str, is_folder: bool) -> bool:
    """Returns whether something below a root is left out, by its own name or by that of a folder above it."""
    rules, at = IgnoreRules().within(root), root
    *folders, name = os.path.relpath(path, root).split(os.sep)
    for folder in folders:
        at = os.path.join(at, folder)
        if rules.ignore(at, is_folder=True):
            return True
        rules = rules.within(at)
    return rules.ignore(os.path.join(at, name), is_folder)


def rules_in(root: str, folder: str) -> IgnoreRules:
    """Returns the rules of a folder at or below a root."""
    rules, at = IgnoreRules().within(root), root
    for name in [] if folder == root else os.path.relpath(folder, root).split(os.sep):
        at = os.path.join(at, name)
        rules = rules.within(at)
    return rules


def _is_ignored_by_habit(name: str, is_folder: bool) -> bool:
    if name.startswith("."):
        return True
    return name in IGNORED_FOLDERS if is_folder else any(fnmatchcase(name, pattern) for pattern in _IGNORED_FILES)


def _spec_of(folder: str) -> GitIgnoreSpec | None:
    """Returns the rules of the folder's own file; None if there is no such file, or no rule can be read from it."""
    file = os.path.join(folder, IGNORE_FILE)
    try:
        found = os.stat(file)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return _read(file, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=512)
def _read(file: str, mtime_ns: int, size_bytes: int) -> GitIgnoreSpec | None:
    """Reads rules; cached by time and size, because every change in a folder asks for its rules."""
    try:
        # Some editors put a byte-order mark before the first rule.
        with open(file, encoding="utf-8-sig", errors="surrogateescape") as stream:
            lines = stream.read(_MAX_RULES_BYTES).splitlines()
    except OSError:
        return None
    spec = GitIgnoreSpec.from_lines(line for line in lines if _is_a_rule(line))
    return spec if len(spec) else None


def _is_a_rule(line: str) -> bool:
    """Returns whether the line is a valid rule; a mistake in one line must not disable the others."""
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return bool(line.strip()) and not line.startswith("#")
