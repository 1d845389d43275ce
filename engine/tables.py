"""Which vector table is opened and with which embedding model: the one of the settings or the one of the library.

The catalogue says which table is active. If the settings name another model, that model's table is created and
filled (`engine.library.moving`), and the present one stays active until then.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from engine.catalog import Catalog, VectorTable
from engine.config import EmbedderSettings, Settings
from engine.embedder import EmbedderSpec, resolve
from engine.embedder.spec import as_indexed
from engine.errors import EmbedderUnavailable

log = logging.getLogger(__name__)

# The only table that existed before models could be changed.
FIRST_FOLDER = "lancedb"
# What is to be deleted.
_ASIDE = "dropped-"


class Tables:
    """Decides which tables are used, and deletes those that no longer are."""

    def __init__(self, library: Path, catalog: Catalog, settings: Callable[[], Settings]) -> None:
        self._library, self._catalog, self._settings = library, catalog, settings
        # Why the library keeps its model although the settings name another; "" if it does not.
        self.problem = ""

    def active(self) -> tuple[VectorTable, EmbedderSpec]:
        """Returns the active table and its model; enters it in the catalogue if it is the first.

        A model that is gone can still be moved from, to the one that the settings name.

        Raises:
            EmbedderUnavailable: Neither its model nor that of the settings is on this computer.
        """
        table = self._catalog.active_table() or self._first()
        if not self._catalog.stored_identity() and (wanted := self._wanted()) is not None:
            if wanted.identity != table.identity:
                table = self._described(wanted)
                self._catalog.set_active_table(table)
            return table, wanted
        return table, self._spec_of(table)

    def following(self) -> tuple[VectorTable, EmbedderSpec] | None:
        """Returns the table to which the library is to move, entered if it is new, and its model; None if it stays."""
        active, wanted = self._catalog.active_table(), self._wanted()
        if active is None or wanted is None:
            return None  # What was moved stays moved: the model may come back with its drive.
        if wanted.identity == active.identity:
            self._catalog.give_up_move()
            return None
        self._catalog.begin_move(self._described(wanted))
        following = self._catalog.next_table()
        return (following, wanted) if following is not None else None

    def folders(self, table: VectorTable) -> tuple[Path, Path]:
        """Returns the folders of its rows and of its shards."""
        suffix = table.folder.removeprefix(FIRST_FOLDER)
        return self._library / table.folder, self._library / f"shards{suffix}"

    def is_made(self, table: VectorTable) -> bool:
        """Returns whether anything was ever written to it."""
        return self.folders(table)[0].is_dir()

    def set_strays_aside(self) -> list[Path]:
        """Sets aside the tables and shards of models that are neither the library's nor the next one.

        Returns:
            The folders to be deleted, among them what a killed process left of earlier ones.
        """
        aside = [*self._library.glob(f"{_ASIDE}*")]
        if self._catalog.is_beginning:
            # They may be the active ones of a catalogue that was lost.
            return aside
        tables = [table for table in (self._catalog.active_table(), self._catalog.next_table()) if table is not None]
        kept = {folder for table in tables for folder in self.folders(table)}
        for name in (FIRST_FOLDER, "shards"):
            for folder in (self._library / name, *self._library.glob(f"{name}-*")):
                if tables and folder not in kept and folder.is_dir():
                    log.info("the vectors in %s are no longer needed", folder.name)
                    # A new one of the same name may be created before it is deleted.
                    with suppress(OSError):
                        aside.append(folder.rename(self._library / f"{_ASIDE}{uuid4().hex}"))
        return aside

    def _wanted(self) -> EmbedderSpec | None:
        """Returns the model that the settings name; None, with the problem noted, if it is not here."""
        try:
            spec = resolve(self._settings().embedder)
        except EmbedderUnavailable as error:
            self.problem = f"{error.sentence} {error.way_out}".strip()
            return None
        self.problem = ""
        return spec

    def _first(self) -> VectorTable:
        """Makes the first entry of a library that is new, lost its catalogue, or is older than the list of tables."""
        identity = self._catalog.stored_identity()
        settings = self._settings().embedder
        wanted = self._wanted()
        if wanted is None and not identity:
            resolve(settings)
        known = wanted if wanted is None or not identity else as_indexed(wanted, identity)
        if not any(self._library.glob(f"{FIRST_FOLDER}*")):
            self._catalog.end_beginning()
        if known is not None:
            table = VectorTable(self._folder_of(known.identity), known.identity, settings.model, known.dimensions)
        else:
            table = self._recognised(identity)
        self._catalog.set_active_table(table)
        return table

    def _recognised(self, identity: str) -> VectorTable:
        """Finds an earlier model by its identity alone. Raises EmbedderUnavailable when no name leads to it."""
        for model in ("", identity.rpartition("@")[0]):
            try:
                spec = resolve(EmbedderSettings(model=model))
            except EmbedderUnavailable:
                continue
            if as_indexed(spec, identity) is not None:
                return VectorTable(self._folder_of(identity), identity, model, spec.dimensions)
        raise _gone(identity)

    def _spec_of(self, table: VectorTable) -> EmbedderSpec:
        wanted = self._wanted()
        if wanted is not None and (known := as_indexed(wanted, table.identity)) is not None:
            return known
        try:
            spec = resolve(EmbedderSettings(model=table.model))
        except EmbedderUnavailable:
            if wanted is None:
                raise
        else:
            if (known := as_indexed(spec, table.identity)) is not None:
                return known
            if wanted is None:
                raise _gone(table.identity)
        return EmbedderSpec(table.name, table.identity, Path(table.model), table.dimensions, None, False, is_gone=True)

    def _folder_of(self, identity: str) -> str:
        """Returns where a library without an entry has the vectors of a model: it may have moved before losing it."""
        moved = _marked_folder(identity)
        return moved if (self._library / moved).is_dir() else FIRST_FOLDER

    def _described(self, spec: EmbedderSpec) -> VectorTable:
        folder = _marked_folder(spec.identity)
        return VectorTable(folder, spec.identity, self._settings().embedder.model, spec.dimensions)


def delete_all(folders: Sequence[Path]) -> None:
    """Deletes folders as far as possible; what remains is found again at the next look."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _marked_folder(identity: str) -> str:
    """Returns the folder of the vectors of a model to which a library moves."""
    return f"{FIRST_FOLDER}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _gone(identity: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(
        f"The library was indexed with the embedding model {identity!r}, which is no longer on this computer.",
        "Put it back where it was, or add your folders to a new library.",
    )
