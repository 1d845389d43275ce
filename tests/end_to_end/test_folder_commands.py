"""Tests for the commands that keep linked folders in step: rescan, status, settle and watch, as scripts use them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.engine_process import PATIENCE_S

NUM_NOTES = 24


class Commands:
    """The command `ragdoll` on one data folder."""

    def __init__(self, home: Path) -> None:
        self._environment = {**os.environ, "RAGDOLL_HOME": str(home)}

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "engine.cli", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )

    def run(self, *arguments: str | Path) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            out, error = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, error

    def json(self, *arguments: str | Path) -> dict:
        code, out, error = self.run(*arguments, "--json")
        assert code == 0, error
        return json.loads(out)


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commanded") / "docs"
    (folder / "notes").mkdir(parents=True)
    for number in range(NUM_NOTES):
        (folder / "notes" / f"{number}.md").write_text(f"Quokka{number} lives on island number {number}.\n")
    (folder / "stays.md").write_text("The lease ends with three months of notice.\n")
    return folder


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory, docs: Path) -> Commands:
    made = Commands(tmp_path_factory.mktemp("commands") / "home")
    assert made.json("add", docs)["documents"]["indexed"] == NUM_NOTES + 1
    return made


def test_what_went_missing_at_once_is_told_and_settled(commands: Commands, docs: Path) -> None:
    shutil.rmtree(docs / "notes")
    assert commands.json("rescan")["documents"]["unchanged"] == 1

    (folder,) = commands.json("status")["folders"]
    assert (folder["path"], folder["num_documents"], folder["num_gone"]) == (str(docs), NUM_NOTES + 1, NUM_NOTES)
    _, said, _ = commands.run("status")
    assert f"{NUM_NOTES} of {NUM_NOTES + 1} documents went missing at once" in said
    assert f"ragdoll settle {docs}" in said

    assert commands.json("settle", docs, "--remove") == {"documents": {"removed": NUM_NOTES}}
    code, _, error = commands.run("settle", docs, "--keep")
    assert (code, "waits for a decision" in error) == (4, True)
    assert commands.json("status")["folders"][0]["num_documents"] == 1


def test_a_folder_that_is_away_is_told_of(commands: Commands, docs: Path) -> None:
    docs.rename(docs.with_name("away"))
    try:
        commands.json("rescan")
        _, said, _ = commands.run("status")
    finally:
        docs.with_name("away").rename(docs)

    assert f"{docs}: offline. It is not there" in said


def test_watching_tells_of_each_change_until_it_is_interrupted(commands: Commands, docs: Path) -> None:
    with commands.start("watch", "--json") as watching:
        assert watching.stdout is not None
        (docs / "new.md").write_text("Axolotls regrow their limbs.\n")
        told = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        _, error = watching.communicate(timeout=PATIENCE_S)

    assert told["documents"]["indexed"] == 1
    assert (watching.returncode, error) == (0, "")
