"""The commands that change the library or tell how it stands."""

from __future__ import annotations

import argparse
import sys
import threading
from contextlib import suppress
from dataclasses import asdict

from engine.cli import documents, moving, words
from engine.cli.commanded import Commanded
from engine.cli.inputs import read_password
from engine.cli.opening import opened
from engine.cli.output import Output
from engine.cli.progress import progress
from engine.config import Home
from engine.engine import Engine
from engine.errors import RagdollError
from engine.events import IndexFailed, IndexFinished, ProblemFound
from engine.guests import listening
from engine.host import EngineDesk


def add(options: argparse.Namespace, out: Output) -> None:
    with opened() as engine:
        with progress(engine, options.json):
            finished = engine.add(options.paths, options.collection)
        _tell_index(finished, out)
        _go_on_moving(engine, out)


def rescan(options: argparse.Namespace, out: Output) -> None:
    with opened() as engine:
        with progress(engine, options.json):
            finished = engine.rescan()
        _tell_index(finished, out)
        _go_on_moving(engine, out)


def watch(options: argparse.Namespace, out: Output) -> None:
    """Runs until it is interrupted, or nobody hears it; tells of each change that the library took in."""
    unheard, is_unheard = list[Exception](), threading.Event()

    def tell(event: object) -> None:
        if isinstance(event, IndexFinished):
            try:
                _tell_index(event, out)
                out.flush()
            except (OSError, RagdollError) as error:
                # On a thread of the engine, which it does not concern.
                unheard.append(error)
                is_unheard.set()
        elif isinstance(event, IndexFailed):
            print(f"ragdoll: {event.error}", file=sys.stderr)
        elif isinstance(event, ProblemFound):
            print(f"ragdoll: {event.sentence}", file=sys.stderr)

    with (
        Engine(Home.find(), tell, watches=True) as engine,
        listening(EngineDesk(engine), engine),
        suppress(KeyboardInterrupt),
    ):
        engine.start_moving()
        if not out.is_json:
            out.line("Keeping the library in step with its folders; Ctrl+C ends it.")
            out.flush()
        is_unheard.wait()
        raise unheard[0]


def prioritise(options: argparse.Namespace, out: Output) -> None:
    with opened() as engine, progress(engine, options.json):
        finished = engine.prioritise(options.paths) or IndexFinished(0, 0, 0, (), (), 0, 0.0)
    if out.is_json or finished.indexed or finished.skipped or finished.failed:
        _tell_index(finished, out)
    else:
        out.line("Nothing waits to be read there.")


def unlock(options: argparse.Namespace, out: Output) -> None:
    password = read_password(options.password_file)
    with opened() as engine, progress(engine, options.json):
        finished = engine.unlock(options.paths, password, remember=options.remember)
    _tell_index(finished, out)


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


def _go_on_moving(engine: Commanded, out: Output) -> None:
    # It may take long, and what was asked for is done.
    out.flush()
    moving.carry_on(engine, out.is_json)


def _tell_index(finished: IndexFinished, out: Output) -> None:
    out.json(documents.of_index(finished)) if out.is_json else words.tell_index(finished, out)


def _tell_removed(removed: int, out: Output) -> None:
    told = f"{words.counted(removed, 'document')} removed."
    out.json({"documents": {"removed": removed}}) if out.is_json else out.line(told)
