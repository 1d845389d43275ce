"""Tests for engine.cli.collections, alone and beside an engine that holds the library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine import cli
from engine.engine import Engine
from engine.guests import listening
from engine.host import EngineDesk
from tests.helpers.quick_stores import use_quick_stores
from tests.helpers.ragdoll_command import Ragdoll


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "flat.md").write_text("The lease ends in May.")
    (docs / "boat.md").write_text("The boat is moored in the harbour.")
    return docs


@pytest.fixture(params=["alone", "beside a window"])
def ragdoll(
    request: pytest.FixtureRequest, tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ragdoll]:
    """A library with two collections, one of which has all and the other one file."""
    use_quick_stores(monkeypatch.setattr)
    ragdoll = Ragdoll(tmp_path / "home")
    ragdoll.json("add", docs, "--collection", "All notes")
    ragdoll.json("add", docs / "boat.md", "--collection", "Boats")
    with ExitStack() as stack:
        if request.param != "alone":
            engine = stack.enter_context(Engine.open(ragdoll.home))
            stack.enter_context(listening(EngineDesk(engine), engine))
        yield ragdoll


def names(document: dict) -> list[str]:
    return [collection["name"] for collection in document["collections"]]


def test_collections_are_listed(ragdoll: Ragdoll, docs: Path) -> None:
    assert names(ragdoll.json("collections")) == ["All notes", "Boats"]
    done = ragdoll.run_here("collections", "list")
    assert done.out == (
        f"All notes: 2 indexed; 2 chunks\n    {docs}\nBoats: 1 indexed; 1 chunk\n    {docs / 'boat.md'}\n"
    )


def test_a_collection_is_renamed_and_found_by_both_names(ragdoll: Ragdoll) -> None:
    done = ragdoll.json("collections", "rename", "all notes", "Papers")
    assert names(done) == ["Boats", "Papers"]
    assert done["collections"][1]["former_names"] == ["All notes"]
    for name in ("Papers", "All notes"):
        found = ragdoll.json("search", "May", "--collection", name)["passages"]
        assert len(found) == 2


def test_a_collection_is_deleted_with_what_no_other_has(ragdoll: Ragdoll, docs: Path) -> None:
    done = ragdoll.json("collections", "delete", "All notes")
    assert (done["documents"], names(done)) == ({"removed": 1}, ["Boats"])
    assert (docs / "flat.md").is_file()
    assert ragdoll.json("search", "May", "--collection", "Boats")["passages"][0]["document"] == str(docs / "boat.md")
    told = ragdoll.run_here("collections", "delete", "Boats").out
    assert told.startswith("1 document removed; the files stay where they are.\nThere is no collection;")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("rename", "All notes", "boats"), cli.EXIT_BAD_ARGUMENTS, "'Boats' already"),
        (("rename", "All notes", " "), cli.EXIT_BAD_ARGUMENTS, "needs a name"),
        (("rename", "All notes", "\udcff"), cli.EXIT_BAD_ARGUMENTS, "UTF-8"),
        (("rename", "None such", "Papers"), cli.EXIT_NOTHING_THERE, "no collection named 'None such'"),
        (("delete", "None such"), cli.EXIT_NOTHING_THERE, "There are: All notes, Boats."),
        (("rename", "All notes"), cli.EXIT_BAD_ARGUMENTS, "ragdoll collections rename OLD NEW"),
        (("delete",), cli.EXIT_BAD_ARGUMENTS, "ragdoll collections delete NAME"),
        (("delete", "All", "notes"), cli.EXIT_BAD_ARGUMENTS, "quotation marks"),
        (("list", "Boats"), cli.EXIT_BAD_ARGUMENTS, "ragdoll collections list"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(
    ragdoll: Ragdoll, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = ragdoll.run_here("collections", *arguments)
    assert done.code == code
    assert said in done.error
    assert names(ragdoll.json("collections")) == ["All notes", "Boats"]


def test_what_is_added_without_a_name_goes_where_the_default_collection_went(ragdoll: Ragdoll, tmp_path: Path) -> None:
    for name in ("one.md", "two.md", "three.md"):
        (tmp_path / name).write_text(f"This is {name}.")
    ragdoll.json("add", tmp_path / "one.md")
    ragdoll.json("collections", "rename", "Documents", "Papers")
    ragdoll.json("add", tmp_path / "two.md")
    assert names(ragdoll.json("collections")) == ["All notes", "Boats", "Papers"]
    ragdoll.json("add", tmp_path / "three.md", "--collection", "Documents")
    assert names(ragdoll.json("collections")) == ["All notes", "Boats", "Documents", "Papers"]
    assert ragdoll.run_here("add", tmp_path, "--collection", "").code == cli.EXIT_BAD_ARGUMENTS
