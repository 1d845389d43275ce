"""Tests for ARCHITECTURE.md: it is short, what it names is there, and no thread is missing in its table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_NAME_OF_THREAD = re.compile(
    r"""(?:\bname=|thread_name_prefix=|CacheThread\(|ThreadPoolExecutor\(\w+, )f?"([a-z][a-zKV -]*)"""
)


@pytest.fixture
def page(root: Path) -> str:
    return (root / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_it_is_read_in_ten_minutes(page: str) -> None:
    assert len(page.splitlines()) <= 130


def test_the_steps_of_a_questions_life_are_numbered(page: str) -> None:
    life = page.partition("## A question's life")[2].partition("\n## ")[0]

    assert [int(number) for number in re.findall(r"^(\d+)\. ", life, re.MULTILINE)] == list(range(1, 11))


def test_every_module_that_it_names_exists(page: str, root: Path) -> None:
    named = set(re.findall(r"`((?:app|engine|resources|tests|packaging)/[\w./-]*\w)`", page))

    assert named
    assert sorted(name for name in named if not (root / name).exists()) == []


def test_every_thread_has_its_place_in_the_table(page: str, root: Path) -> None:
    rows = page.partition("## Threads")[2].partition("\n## ")[0].splitlines()
    told = {name for row in rows if "|" in row for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    sources = [path for package in ("engine", "app") for path in (root / package).rglob("*.py")]
    threads = {
        name.rstrip("-")
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"Thread|thread_name_prefix|target=", line)
        for name in _NAME_OF_THREAD.findall(line)
    }

    assert {"generation", "index", "kept KV", "api search"} <= threads
    assert threads - told == set(), "threads without their place in ARCHITECTURE.md"
    # Its names are made beside the threads.
    assert told - threads == {"weights"}, "threads that are gone"
