"""The commands that search the files: `search` and `ask`, for one question or a file of them."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.cli import documents, words
from engine.cli.commanded import Commanded
from engine.cli.inputs import BatchLine, read_batch, read_form, read_sampling
from engine.cli.opening import asked
from engine.cli.output import Output
from engine.config import Settings
from engine.core import QUOTES_ONLY, Filters, SamplingParams
from engine.errors import BadRequest
from engine.library.parsers.sniff import FAMILY_OF_ENDING
from engine.library.typed_paths import absolute
from engine.models.known import named
from engine.retrieval.kinds import formats_named

# Lines of a batch that are searched before the first is written; the engine makes its own sweeps of them.
SEARCH_BATCH = 1024


def search(options: argparse.Namespace, out: Output) -> None:
    # Before the library is locked: the batch may be written by a command that waits for the lock.
    batch = read_batch(options.batch, "query") if options.batch else []
    if bool(options.batch) == bool(options.query):
        fault = "There are both a query and a batch." if options.batch else "There is nothing to search for."
        raise BadRequest(fault, "Give a query, or --batch FILE.")
    with asked() as engine:
        if options.batch:
            _search_batch(engine, batch, options, out)
            return
        found = engine.search(options.query, options.top_k, *_confined_to(options))
    if out.is_json:
        passages = [documents.of_passage(passage) for passage in found.passages]
        out.json({"passages": passages, "scope": asdict(found.scope)})
    else:
        words.tell_passages(found.passages, out)


def _model_of(name: str, settings: Settings) -> Path | None:
    """Returns a file, or a known model by its name; None for quotes only."""
    if name == QUOTES_ONLY:
        return None
    file = Path(name)
    return file if file.is_file() else named(settings.models.known, name) or file


def _search_batch(engine: Commanded, lines: list[BatchLine], options: argparse.Namespace, out: Output) -> None:
    for start in range(0, len(lines), SEARCH_BATCH):
        some = lines[start : start + SEARCH_BATCH]
        texts = [line.text for line in some]
        results = engine.search_many(texts, options.top_k, *_confined_to(options))
        for line, evidence in zip(some, results, strict=True):
            out.json({"id": line.line_id, "passages": [documents.of_passage(passage) for passage in evidence.passages]})


def ask(options: argparse.Namespace, out: Output) -> None:
    _check_no_files(options)
    batch = read_batch(options.batch, "question", "query") if options.batch else []
    if bool(options.batch) == bool(options.question):
        fault = "There are both a question and a batch." if options.batch else "There is no question."
        raise BadRequest(fault, "Give a question, or --batch FILE.")
    collection, filters = _confined_to(options)
    with asked() as engine:
        if options.model:
            engine.use_model(_model_of(options.model, engine.settings), remember=False)
        asking = {
            "collection": collection,
            "filters": filters,
            "sampling": _sampling(options, engine.settings),
            "searches": not options.no_files,
        }
        if options.instructions is not None:
            asking["instructions"] = options.instructions
        if options.batch:
            _ask_batch(engine, batch, asking, out)
            return
        if options.each_file:
            _ask_each_file(engine, options.question, asking, out)
            return
        end = engine.ask_many([options.question], **asking)[0]
    if out.is_json:
        out.json(documents.of_answer(end))
    else:
        words.tell_answer(end, out, searched=not options.no_files)


def _ask_batch(engine: Commanded, lines: list[BatchLine], asking: dict[str, Any], out: Output) -> None:
    """Writes an answer to each line, in order, as soon as possible, so that stopping early loses none of them."""
    texts, models = [line.text for line in lines], [line.model for line in lines]
    with closing(engine.ask_in_turn(texts, models, **{**asking, "priority": "batch"})) as ends:
        for line, end in zip(lines, ends, strict=True):
            out.json({"id": line.line_id, **documents.of_end(end)})
            out.flush()


def _ask_each_file(engine: Commanded, question: str, asking: dict[str, Any], out: Output) -> None:
    """Writes an answer from each file as it finishes, so that stopping early loses none of them."""
    with closing(engine.ask_each_file(question, **asking)) as answers:
        for document, end in answers:
            if out.is_json:
                out.json({"document": document.path, **documents.of_end(end)})
            else:
                words.tell_file_answer(document.path, end, out)
            out.flush()


def _check_no_files(options: argparse.Namespace) -> None:
    """Refuses filters together with --no-files, because they would have no effect."""
    if options.no_files and (options.each_file or _confined_to(options) != (None, Filters())):
        raise BadRequest("With --no-files nothing is searched.", "Leave out --no-files, or what says where to search.")


def _sampling(options: argparse.Namespace, settings: Settings) -> SamplingParams:
    chosen = {
        "max_tokens": options.max_tokens,
        "seed": options.seed,
        "temperature": options.temperature,
        "stop": options.stop,
        "num_answers": options.answers,
        "beam_width": options.beams,
        "grammar": read_form(options.grammar, "grammar"),
        "json_schema": read_form(options.json_schema, "JSON schema"),
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    sampling = read_sampling(options.sampling, {**asdict(settings.generation.sampling()), **given})
    is_usual = options.beams is None and not any(pair.partition("=")[0] == "beam_width" for pair in options.sampling)
    return sampling.with_usable_beams() if is_usual else sampling


def _confined_to(options: argparse.Namespace) -> tuple[str | None, Filters]:
    filters = Filters(
        paths=tuple(map(absolute, options.paths)),
        formats=formats_named(options.types, FAMILY_OF_ENDING),
        changed_since=options.since,
        changed_until=options.until,
        reads_question=not options.literal,
    )
    return filters.asked_of(options.collections)
