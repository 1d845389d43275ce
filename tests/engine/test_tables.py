"""Tests for engine.tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine import tables
from engine.catalog import Catalog, VectorTable
from engine.catalog.catalog import CATALOG_NAME
from engine.config import EmbedderSettings, Settings
from engine.core import Chunk, FoundFile, ReadDocument
from engine.embedder import EmbedderSpec, spec
from engine.errors import EmbedderUnavailable
from engine.tables import Tables
from tests.helpers.small_embedder import write_small_model


@dataclass
class Machine:
    """A library, and the models that are on this computer, by name."""

    library: Path
    catalog: Catalog
    models: dict[str, str] = field(default_factory=lambda: {"": "minilm@1", "two": "two@1", "minilm": "minilm@1"})
    wanted: str = ""

    def __post_init__(self) -> None:
        self.tables = Tables(self.library, self.catalog, lambda: Settings(embedder=EmbedderSettings(model=self.wanted)))

    def resolve(self, settings: EmbedderSettings) -> EmbedderSpec:
        if settings.model not in self.models:
            raise EmbedderUnavailable(f"The embedding model {settings.model!r} is not here.", "Get it.")
        identity = self.models[settings.model]
        return EmbedderSpec(identity.split("@")[0], identity, self.library, 16, None, False)

    def index_something(self, embedder: str) -> None:
        self.catalog.add_documents([FoundFile("/d/a", 1, 1)])
        (document,) = self.catalog.documents()[0]
        read = ReadDocument("text", "", 0, (Chunk(0, None, 0, 1, "", "a"),))
        self.catalog.mark_indexed(document.document_id, FoundFile("/d/a", 1, 1), "hash", read, embedder, 0)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    catalog = Catalog.open(tmp_path)
    catalog.add_root("Documents", "/d", is_folder=True, device=1)
    made = Machine(tmp_path, catalog)
    monkeypatch.setattr(tables, "resolve", made.resolve)
    yield made
    catalog.close()


def test_a_new_library_takes_the_model_of_the_settings(machine: Machine) -> None:
    table, spec = machine.tables.active()

    assert (table, spec.identity) == (VectorTable("lancedb", "minilm@1", "", 16), "minilm@1")
    assert machine.tables.following() is None


def test_an_empty_library_changes_its_model_at_once(machine: Machine) -> None:
    machine.tables.active()
    machine.wanted = "two"

    table, spec = machine.tables.active()

    assert table.identity == spec.identity == "two@1"
    assert machine.tables.following() is None


def test_what_was_embedded_without_prompts_is_searched_so_until_it_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_small_model(tmp_path / "multilingual-e5-small")
    with closing(Catalog.open(tmp_path)) as catalog:
        catalog.add_root("Documents", "/d", is_folder=True, device=1)
        machine = Machine(tmp_path, catalog, wanted=str(folder))
        with monkeypatch.context() as before:
            before.setattr(spec, "unsaid", lambda *_: {})
            table, bare = machine.tables.active()
        machine.index_something(table.identity)

        assert machine.tables.active() == (table, bare)
        following = machine.tables.following()

        assert following is not None
        assert following[1].prompts == {"query": "query: ", "document": "passage: "}
        assert following[0].identity == following[1].identity != bare.identity
        # Also where the settings name another one by then.
        machine.wanted = ""
        assert machine.tables.active() == (table, bare)


def test_what_a_lost_catalogue_answered_from_is_no_stray_until_its_folders_are_read_again(machine: Machine) -> None:
    machine.index_something("minilm@1")
    machine.tables.active()
    machine.wanted = "two"
    following = machine.tables.following()
    assert following is not None
    rows = machine.tables.folders(following[0])[0]
    rows.mkdir()
    (machine.library / "lancedb-other").mkdir()
    machine.catalog.close()
    (machine.library / CATALOG_NAME).unlink()

    machine.catalog = Catalog.open(machine.library)
    machine.tables = Tables(
        machine.library, machine.catalog, lambda: Settings(embedder=EmbedderSettings(model=machine.wanted))
    )

    assert machine.tables.folders(machine.tables.active()[0])[0] == rows
    assert machine.tables.set_strays_aside() == []
    assert (machine.library / "lancedb-other").is_dir()
    machine.catalog.end_beginning()
    assert len(machine.tables.set_strays_aside()) == 1
    assert rows.is_dir()
    machine.catalog.close()


def test_a_library_from_before_is_recognised_by_its_identity(machine: Machine) -> None:
    machine.index_something("minilm@1")
    machine.wanted = "two"

    table, spec = machine.tables.active()

    assert (table.folder, table.model, spec.identity) == ("lancedb", "", "minilm@1")


def test_another_model_is_moved_to_and_the_present_one_stays_until_then(machine: Machine) -> None:
    machine.index_something("minilm@1")
    machine.tables.active()
    machine.wanted = "two"

    following = machine.tables.following()

    assert following is not None
    assert following[0].folder.startswith("lancedb-")
    assert machine.catalog.next_table() == following[0]
    assert machine.tables.active()[1].identity == "minilm@1"
    machine.wanted = ""
    assert machine.tables.following() is None
    assert machine.catalog.next_table() is None


def test_a_third_model_takes_the_place_of_the_second(machine: Machine) -> None:
    machine.index_something("minilm@1")
    machine.tables.active()
    machine.models["three"] = "three@1"
    machine.wanted = "two"
    machine.tables.following()
    machine.catalog.mark_moved([document.document_id for document in machine.catalog.documents()[0]])
    machine.wanted = "three"

    machine.tables.following()

    following = machine.catalog.next_table()
    assert following is not None
    assert following.identity == "three@1"
    assert machine.catalog.moved() == (0, 1)


def test_a_model_that_is_not_here_is_told_and_what_was_moved_stays(machine: Machine) -> None:
    machine.index_something("minilm@1")
    machine.tables.active()
    machine.wanted = "two"
    machine.tables.following()
    machine.catalog.mark_moved([document.document_id for document in machine.catalog.documents()[0]])
    del machine.models["two"]

    assert machine.tables.active()[1].identity == "minilm@1"
    assert machine.tables.following() is None
    assert "'two' is not here" in machine.tables.problem
    assert machine.catalog.moved() == (1, 1)


@pytest.mark.parametrize("has_gone", [False, True])
def test_a_model_that_was_exchanged_or_is_gone_can_be_moved_from(machine: Machine, has_gone: bool) -> None:
    machine.wanted = "minilm"
    machine.index_something("minilm@1")
    machine.tables.active()
    if has_gone:
        machine.wanted = "two"
        del machine.models["minilm"]
    else:
        machine.models["minilm"] = "minilm@2"

    table, spec = machine.tables.active()
    assert (table.identity, spec.identity, spec.is_gone) == ("minilm@1", "minilm@1", True)
    following = machine.tables.following()
    assert following is not None
    assert following[1].identity == ("two@1" if has_gone else "minilm@2")
    assert machine.catalog.moved() == (0, 1)


def test_a_model_that_is_gone_is_told_where_there_is_no_other(machine: Machine) -> None:
    machine.index_something("minilm@1")
    machine.tables.active()
    machine.models.clear()
    with pytest.raises(EmbedderUnavailable):
        machine.tables.active()


def test_only_tables_that_nobody_needs_are_deleted(machine: Machine) -> None:
    machine.index_something("minilm@1")
    machine.tables.active()
    machine.wanted = "two"
    following = machine.tables.following()
    assert following is not None
    kept = [*machine.tables.folders(machine.tables.active()[0]), *machine.tables.folders(following[0])]
    for folder in (*kept, machine.library / "lancedb-old", machine.library / "shards-old", machine.library / "other"):
        folder.mkdir()
    (machine.library / "lancedb-old" / "rows").touch()

    aside = machine.tables.set_strays_aside()

    assert [(folder / "rows").exists() for folder in aside] == [True, False]
    assert {*machine.tables.set_strays_aside()} == {*aside}, "what a kill left is found again"
    tables.delete_all(aside)
    assert {folder.name for folder in machine.library.iterdir() if folder.is_dir()} == {
        "other",
        *(folder.name for folder in kept),
    }
