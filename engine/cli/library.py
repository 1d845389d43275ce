"""The commands that change the library or report its state."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from engine.cli import documents, moving, words
from engine.cli.commanded import Commanded
from engine.cli.inputs import read_password
from engine.cli.opening import opened
from engine.cli.output import Output
from engine.cli.progress import progress
from engine.core import DEFAULT_COLLECTION
from engine.events import IndexFinished


def add(options: argparse.Namespace, out: Output) -> None:
    with opened() as engine:
        with progress(engine, options.json):
            finished = engine.add(options.paths, _collection(options, engine))
        tell_index(finished, out)
        _go_on_moving(engine, out)


def rescan(options: argparse.Namespace, out: Output) -> None:
    with opened() as engine:
        with progress(engine, options.json):
            finished = engine.rescan()
        tell_index(finished, out)
        _go_on_moving(engine, out)


def prioritise(options: argparse.Namespace, out: Output) -> None:
    with opened() as engine, progress(engine, options.json):
        finished = engine.prioritise(options.paths) or IndexFinished(0, 0, 0, (), (), 0, 0.0)
    if out.is_json or finished.indexed or finished.skipped or finished.failed:
        tell_index(finished, out)
    else:
        out.line("Nothing waits to be read there.")


def unlock(options: argparse.Namespace, out: Output) -> None:
    password = read_password(options.password_file)
    with opened() as engine, progress(engine, options.json):
        finished = engine.unlock(options.paths, password, remember=options.remember)
    tell_index(finished, out)


def settle(options: argparse.Namespace, out: Output) -> None:
    with opened() as engine:
        removed = engine.settle_gone(options.path, remove=options.remove)
    if out.is_json or options.remove:
        _tell_removed(removed, out)
    else:
        out.line("They are kept, and can be asked about until they return or you remove them.")


def remove(options: argparse.Namespace, out: Output) -> None:
    with opened() as engine:
        removed = engine.remove(options.paths)
    _tell_removed(removed, out)


def status(options: argparse.Namespace, out: Output) -> None:
    with opened() as engine:
        collections, folders, disk_bytes = engine.collections(), engine.folders(), engine.disk_bytes()
        embedder = engine.embedder()
        document = {
            "collections": [asdict(collection) for collection in collections],
            "folders": [folder.model_dump() for folder in folders],
            "documents": engine.documents_by_state(),
            "chunks": sum(collection.num_chunks for collection in collections),
            "bytes_on_disk": disk_bytes,
            "memory": engine.memory().model_dump(),
            "model": engine.settings.models.current or None,
            "embedder": embedder.model_dump(),
            "data_folder": str(engine.home.data),
        }
    if out.is_json:
        out.json(document)
        return
    words.tell_collections(collections, folders, out)
    words.tell_move(embedder, out)
    out.line(f"{disk_bytes / 2**20:.1f} MB on disk in {document['data_folder']}")


def _collection(options: argparse.Namespace, engine: Commanded) -> str:
    """Returns the collection of new files; by default the default one, whatever its present name."""
    if options.collection is not None:
        return str(options.collection)
    collections = engine.collections()
    if DEFAULT_COLLECTION in (collection.name for collection in collections):
        return DEFAULT_COLLECTION
    renamed = (one.name for one in collections if DEFAULT_COLLECTION in one.former_names)
    return next(renamed, DEFAULT_COLLECTION)


def tell_index(finished: IndexFinished, out: Output) -> None:
    out.json(documents.of_index(finished)) if out.is_json else words.tell_index(finished, out)


def _go_on_moving(engine: Commanded, out: Output) -> None:
    # It may take long, and the command's own work is done.
    out.flush()
    moving.carry_on(engine, out.is_json)


def _tell_removed(removed: int, out: Output) -> None:
    told = f"{words.counted(removed, 'document')} removed."
    out.json({"documents": {"removed": removed}}) if out.is_json else out.line(told)
