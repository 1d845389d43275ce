"""Tests for README.md: its commands can be typed, no command or option is missing, and its links lead somewhere."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli.parser import make_parser

# Of every command, and told once.
_COMMON = {"--help", "--json", "--verbose"}
_PAGES = (
    "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "packaging/README.md", "engine/README.md", "app/README.md",
    "engine/cli/README.md", "engine/api/README.md", "tests/bench/README.md", "tests/device/README.md",
)  # fmt: skip


@pytest.fixture
def page(root: Path) -> str:
    return (root / "README.md").read_text(encoding="utf-8")


def commands() -> dict[str, argparse.ArgumentParser]:
    actions = make_parser()._actions
    return next(dict(one.choices) for one in actions if isinstance(one, argparse._SubParsersAction))


def typed(page: str) -> Iterator[list[str]]:
    """The arguments of each line that calls `ragdoll`."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("ragdoll "):
                yield shlex.split(line, comments=True)[1:]


def test_its_commands_can_be_typed(page: str) -> None:
    lines = list(typed(page))

    assert len(lines) >= 5
    for arguments in lines:
        make_parser().parse_args(arguments)


def test_every_command_stands_there(page: str) -> None:
    table = page.partition("| command | what it does |")[2].partition("\n\n")[0]

    assert [name for name in commands() if not re.search(rf"`{name}\b", table)] == []


def test_every_option_stands_there(page: str) -> None:
    text = page.partition("## Command line")[2].partition("\n## ")[0]
    options = {
        (name, option)
        for name, parser in commands().items()
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--") and option not in _COMMON
    }

    assert sorted((name, option) for name, option in options if f"{option}" not in re.findall(r"--[a-z-]+", text)) == []
    assert [option for option in ("--json", "--verbose") if option not in text] == []


def test_every_action_of_a_command_stands_there(page: str) -> None:
    table = page.partition("| command | what it does |")[2].partition("\n\n")[0]
    actions = {
        f"{name} {choice}"
        for name, parser in commands().items()
        for action in parser._actions
        for choice in action.choices or ()
        # What a command does without one.
        if choice != "list"
    }

    assert sorted(action for action in actions if f"`{action}" not in table) == []


def test_the_command_for_all_checks_is_the_one_that_ci_runs(page: str, root: Path) -> None:
    (called,) = re.findall(r"^exec (\S+ \S+)", (root / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)

    assert f"\n{called} " in page


@pytest.mark.parametrize("name", _PAGES)
def test_its_links_lead_to_files_that_are_there(root: Path, name: str) -> None:
    file = root / name
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text(encoding="utf-8"))

    assert [link for link in links if not (file.parent / link).exists()] == []
