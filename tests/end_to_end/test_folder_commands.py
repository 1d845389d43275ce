"""Tests for the commands that keep linked folders in step: rescan, status, settle and watch, as scripts use them."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from tests.helpers.engine_process import PATIENCE_S
from tests.helpers.homes import NewHome
from tests.helpers.ragdoll_command import Ragdoll

NUM_NOTES = 24


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commanded") / "docs"
    (folder / "notes").mkdir(parents=True)
    for number in range(NUM_NOTES):
        (folder / "notes" / f"{number}.md").write_text(f"Quokka{number} lives on island number {number}.\n")
    (folder / "stays.md").write_text("The lease ends with three months of notice.\n")
    return folder


@pytest.fixture(scope="module")
def ragdoll(tmp_path_factory: pytest.TempPathFactory, docs: Path, new_home: NewHome) -> Ragdoll:
    made = Ragdoll(new_home(tmp_path_factory.mktemp("commands") / "home"))
    assert made.json("add", docs)["documents"]["indexed"] == NUM_NOTES + 1
    return made


def test_what_went_missing_at_once_is_told_and_settled(ragdoll: Ragdoll, docs: Path) -> None:
    shutil.rmtree(docs / "notes")
    assert ragdoll.json("rescan")["documents"]["unchanged"] == 1

    (folder,) = ragdoll.json("status")["folders"]
    assert (folder["path"], folder["num_documents"], folder["num_gone"]) == (str(docs), NUM_NOTES + 1, NUM_NOTES)
    said = ragdoll.run_here("status").out
    assert f"{NUM_NOTES} of {NUM_NOTES + 1} documents went missing at once" in said
    assert f"ragdoll settle {docs}" in said

    assert ragdoll.json("settle", docs, "--remove") == {"documents": {"removed": NUM_NOTES}}
    settled = ragdoll.run_here("settle", docs, "--keep")
    assert (settled.code, "waits for a decision" in settled.error) == (4, True)
    assert ragdoll.json("status")["folders"][0]["num_documents"] == 1


def test_a_folder_that_is_away_is_told_of(ragdoll: Ragdoll, docs: Path) -> None:
    docs.rename(docs.with_name("away"))
    try:
        ragdoll.json("rescan")
        said = ragdoll.run_here("status").out
    finally:
        docs.with_name("away").rename(docs)

    assert f"{docs}: offline. It is not there" in said


def test_watching_tells_of_each_change_until_it_is_interrupted(ragdoll: Ragdoll, docs: Path) -> None:
    # What a shell starts in the background ignores the signal, and hands that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ragdoll.start("watch", "--json") as watching:
        assert watching.stdout is not None
        (docs / "new.md").write_text("Axolotls regrow their limbs.\n")
        told = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        _, error = watching.communicate(timeout=PATIENCE_S)

    assert told["documents"]["indexed"] == 1
    assert (watching.returncode, error) == (0, "ragdoll: stopping…\n")
