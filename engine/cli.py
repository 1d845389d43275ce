"""The command line: the same Engine in this process, for people at a terminal and for scripts.

Scripts rely on this: with `--json` exactly one JSON document on stdout (one a line for `--batch`), logs on
stderr, exit code 0 also when single documents or questions of a batch failed, 1 on failure, 2 for bad arguments,
3 while the application holds the library, 4 when nothing is at a path. `RAGDOLL_HOME` moves all data.
"""

from __future__ import annotations

import argparse
import getpass
import json
import logging
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from engine import __version__
from engine.config import Home, Settings
from engine.core import DEFAULT_COLLECTION, Filters, Passage, Quote, SamplingParams
from engine.engine import Engine
from engine.errors import BadRequest, LibraryHeld, NothingThere, RagdollError
from engine.events import AnswerEnded, AnswerFailed, AnswerFinished, IndexFailed, IndexFinished, IndexProgressed
from engine.protocol import Folder
from engine.retrieval.kinds import formats_named
from engine.stdio import take_stdout

EXIT_OK, EXIT_FAILED, EXIT_BAD_ARGUMENTS, EXIT_HELD, EXIT_NOTHING_THERE = 0, 1, 2, 3, 4
DEFAULT_TOP_K = 6
# Lines of a batch that are searched before the first is written; the engine makes its own sweeps of them.
SEARCH_BATCH = 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code tells how it went."""
    options = _parser().parse_args(arguments)
    _quiet_logs(options.verbose)
    out = Output(take_stdout(), options.json)
    try:
        options.run(options, out)
    except RagdollError as error:
        print(f"ragdoll: {error}", file=sys.stderr)
        return _exit_code(error)
    except KeyboardInterrupt:
        print("ragdoll: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return EXIT_OK
    return EXIT_OK


class Output:
    """What stdout was before native code was sent to stderr: lines for people, or JSON for scripts."""

    def __init__(self, stream: BinaryIO, is_json: bool) -> None:
        self._stream, self.is_json = stream, is_json

    @property
    def is_terminal(self) -> bool:
        return self._stream.isatty()

    def json(self, document: object) -> None:
        """One JSON document, one line; names that are not UTF-8 stay as escapes."""
        self._stream.write(json.dumps(document).encode("ascii") + b"\n")

    def text(self, text: str) -> None:
        self._stream.write(text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        self._stream.flush()

    def line(self, text: str = "") -> None:
        self.text(text + "\n")


# --- commands ---


def _add(options: argparse.Namespace, out: Output) -> None:
    with _engine() as engine, _progress(engine, options.json):
        finished = engine.add(options.paths, options.collection)
    out.json(_index_document(finished)) if out.is_json else _tell_index(finished, out)


def _search(options: argparse.Namespace, out: Output) -> None:
    with _engine() as engine:
        if options.batch:
            _search_batch(engine, options, out)
            return
        if not options.query:
            raise BadRequest("There is nothing to search for.", "Give a query, or --batch FILE.")
        found = engine.search(options.query, options.top_k, options.collection, _filters(options))
    passages = found.passages
    if out.is_json:
        out.json({"passages": [_passage(passage) for passage in passages], "scope": asdict(found.scope)})
        return
    for number, passage in enumerate(passages, start=1):
        out.line(f"[{number}] {_place(passage)}  ({passage.score:.3f})\n    {' '.join(passage.text.split())[:300]}\n")


def _search_batch(engine: Engine, options: argparse.Namespace, out: Output) -> None:
    lines = _batch(options.batch, "query")
    for start in range(0, len(lines), SEARCH_BATCH):
        some = lines[start : start + SEARCH_BATCH]
        texts = [text for _, text in some]
        results = engine.search_many(texts, options.top_k, options.collection, _filters(options))
        for (line_id, _), evidence in zip(some, results, strict=True):
            out.json({"id": line_id, "passages": [_passage(passage) for passage in evidence.passages]})


def _ask(options: argparse.Namespace, out: Output) -> None:
    with _engine() as engine:
        if options.model:
            engine.use_model(Path(options.model), remember=False)
        asking = {
            "collection": options.collection,
            "filters": _filters(options),
            "sampling": _sampling(options, engine.settings),
        }
        if options.batch:
            lines = _batch(options.batch, "question", "query")
            ends = engine.ask_each([text for _, text in lines], **asking)
            for (line_id, _), end in zip(lines, ends, strict=True):
                out.json({"id": line_id, **_end_document(end)})
            return
        if not options.question:
            raise BadRequest("There is no question.", "Give a question, or --batch FILE.")
        end = engine.ask_many([options.question], **asking)[0]
    if out.is_json:
        out.json(_answer_document(end))
    else:
        _tell_answer(end, out)


def _status(options: argparse.Namespace, out: Output) -> None:
    with _engine() as engine:
        collections, folders, disk_bytes = engine.collections(), engine.folders(), engine.disk_bytes()
        embedder = engine.embedder()
        document = {
            "collections": [asdict(collection) for collection in collections],
            "folders": [folder.model_dump() for folder in folders],
            "documents": _documents_by_state(engine),
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
    for collection in collections:
        states = ", ".join(f"{count} {state}" for state, count in collection.documents_by_state.items() if count)
        out.line(f"{collection.name}: {states or 'empty'}; {collection.num_chunks} chunks")
        for folder in folders:
            if folder.collection == collection.name:
                _tell_folder(folder, out)
    if embedder.next_name:
        moved = f"{embedder.documents_moved} of {embedder.documents_to_move} documents"
        out.line(f"Moving from the embedding model {embedder.name} to {embedder.next_name}: {moved} so far.")
    out.line(f"{disk_bytes / 2**20:.1f} MB on disk in {document['data_folder']}")


def _rescan(options: argparse.Namespace, out: Output) -> None:
    with _engine() as engine, _progress(engine, options.json):
        finished = engine.start_rescan().wait()
    out.json(_index_document(finished)) if out.is_json else _tell_index(finished, out)


def _watch(options: argparse.Namespace, out: Output) -> None:
    """Runs until it is interrupted; tells of each change that the library took in."""

    def tell(event: object) -> None:
        if isinstance(event, IndexFinished):
            out.json(_index_document(event)) if out.is_json else _tell_index(event, out)
            out.flush()
        elif isinstance(event, IndexFailed):
            print(f"ragdoll: {event.error}", file=sys.stderr)

    with Engine(Home.find(), tell, watches=True), suppress(KeyboardInterrupt):
        if not out.is_json:
            out.line("Keeping the library in step with its folders; Ctrl+C ends it.")
            out.flush()
        threading.Event().wait()


def _settle(options: argparse.Namespace, out: Output) -> None:
    with _engine() as engine:
        removed = engine.settle_gone(options.path, remove=options.remove)
    if out.is_json:
        out.json({"documents": {"removed": removed}})
    elif options.remove:
        out.line(f"{removed} documents removed.")
    else:
        out.line("They are kept, and can be asked about until they return or you remove them.")


def _remove(options: argparse.Namespace, out: Output) -> None:
    with _engine() as engine:
        removed = engine.remove(options.paths)
    if out.is_json:
        out.json({"documents": {"removed": removed}})
    else:
        out.line(f"{removed} documents removed.")


def _prioritise(options: argparse.Namespace, out: Output) -> None:
    with _engine() as engine, _progress(engine, options.json):
        finished = engine.prioritise(options.paths) or IndexFinished(0, 0, 0, (), (), 0, 0.0)
    if out.is_json:
        out.json(_index_document(finished))
    elif finished.indexed or finished.skipped or finished.failed:
        _tell_index(finished, out)
    else:
        out.line("Nothing waits to be read there.")


def _unlock(options: argparse.Namespace, out: Output) -> None:
    password = _password(options.password_file)
    with _engine() as engine, _progress(engine, options.json):
        finished = engine.unlock(options.paths, password, remember=options.remember)
    out.json(_index_document(finished)) if out.is_json else _tell_index(finished, out)


def _models(options: argparse.Namespace, out: Output) -> None:
    with _engine() as engine:
        if options.action == "add":
            engine.add_model(Path(_named_model(options)))
        elif options.action == "use":
            engine.choose_model(_named_model(options))
        current = engine.settings.models.current
        entries = engine.models()
    if out.is_json:
        out.json({"models": [entry.model_dump() for entry in entries], "current": current or None})
        return
    for entry in entries:
        mark = "*" if entry.path == current else " "
        out.line(
            f"{mark} {entry.name}  {entry.file_bytes / 2**30:.2f} GB  {entry.problem or entry.fit}\n    {entry.path}"
        )
    if not current:
        out.line("No model is in use: answers are quotes from your files.")


# --- documents of the contract ---


def _index_document(finished: IndexFinished) -> dict[str, Any]:
    def problems(pairs: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
        return [{"path": path, "reason": reason} for path, reason in pairs]

    return {
        "documents": {
            "indexed": finished.indexed,
            "unchanged": finished.unchanged,
            "skipped": problems(finished.skipped),
            "failed": problems(finished.failed),
        },
        "chunks": finished.chunks,
        "seconds": round(finished.seconds, 3),
    }


def _answer_document(end: AnswerFinished) -> dict[str, Any]:
    answer = end.answer
    return {
        "answer": answer.text,
        "quotes": [_quote(quote) for quote in answer.quotes],
        "citations": [{"marker": citation.marker, "passage": citation.passage} for citation in answer.citations],
        "passages": [_passage(passage) for passage in answer.passages],
        "scope": asdict(answer.scope),
        "timeline": asdict(end.timings),
        "model": answer.model,
    }


def _end_document(end: AnswerEnded) -> dict[str, Any]:
    """The line of a batch: an answer, or why there is none."""
    if isinstance(end, AnswerFinished):
        return _answer_document(end)
    error = end.error if isinstance(end, AnswerFailed) else RagdollError("The question was cancelled.")
    return {"error": {"sentence": error.sentence, "way_out": error.way_out}}


def _passage(passage: Passage) -> dict[str, Any]:
    names = ("document", "page", "place", "text", "score", "is_offline")
    return {name: getattr(passage, name) for name in names}


def _quote(quote: Quote) -> dict[str, Any]:
    return {"text": quote.text, "document": quote.document, "page": quote.page, "place": quote.place}


def _documents_by_state(engine: Engine) -> dict[str, int]:
    return {state: engine.documents(states=(state,), limit=0)[1] for state in _STATES}


_STATES: tuple[Any, ...] = ("pending", "indexed", "skipped", "failed", "offline")


# --- words for people ---


def _tell_index(finished: IndexFinished, out: Output) -> None:
    out.line(
        f"{finished.indexed} documents indexed ({finished.chunks} chunks), {finished.unchanged} unchanged, "
        f"in {finished.seconds:.1f} s."
    )
    for title, problems in (("skipped", finished.skipped), ("failed", finished.failed)):
        for path, reason in problems:
            out.line(f"  {title}: {path}: {reason}")


def _tell_folder(folder: Folder, out: Output) -> None:
    out.line(f"    {folder.path}" + (f": offline. {folder.absence}" if folder.absence else ""))
    if folder.num_gone:
        out.line(
            f"        {folder.num_gone} of {folder.num_documents} documents went missing at once and are kept: "
            f"ragdoll settle {shlex.quote(folder.path)} --remove or --keep"
        )


def _tell_answer(end: AnswerFinished, out: Output) -> None:
    answer = end.answer
    out.line(answer.text.strip() or "Not found in your files.")
    out.line()
    for index in dict.fromkeys(citation.passage for citation in answer.citations):
        out.line(f"[{index + 1}] {_place(answer.passages[index])}")
    scope = answer.scope
    files = "1 file" if scope.files == 1 else f"{scope.files} files"
    for recognised in scope.recognised:
        out.line(f"From the question: {recognised}.")
    out.line(f"From {scope.passages_used} of {scope.passages_found} passages in {files}.")


def _place(passage: Passage) -> str:
    where = f"{passage.document}, {passage.place}" if passage.place else passage.document
    return f"{where} (out of reach)" if passage.is_offline else where


@contextmanager
def _progress(engine: Engine, is_json: bool) -> Iterator[None]:
    """A bar on a terminal's stderr; nothing where no person is watching."""
    if is_json or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)

        def show(event: object) -> None:
            if isinstance(event, IndexProgressed):
                name = os.path.basename(event.current).encode("utf-8", "replace").decode()
                bar.update(task, completed=event.documents_done, total=event.documents_total, description=name)

        unsubscribe = engine.subscribe(show)
        try:
            yield
        finally:
            unsubscribe()


# --- arguments ---


def _engine() -> Engine:
    return Engine(Home.find())


def _sampling(options: argparse.Namespace, settings: Settings) -> SamplingParams:
    chosen = {"max_tokens": options.max_tokens, "seed": options.seed}
    defaults = asdict(settings.generation.sampling())
    return SamplingParams(**{**defaults, **{name: value for name, value in chosen.items() if value is not None}})


def _filters(options: argparse.Namespace) -> Filters:
    return Filters(
        paths=tuple(os.path.abspath(os.path.expanduser(path)) for path in options.paths),
        formats=formats_named(options.types),
        changed_since=options.since,
        changed_until=options.until,
        reads_question=not options.literal,
    )


def _add_filters(command: argparse.ArgumentParser) -> None:
    command.add_argument("--collection", metavar="NAME")
    command.add_argument("--in", action="append", default=[], dest="paths", metavar="PATH", help="only below this path")
    command.add_argument(
        "--type", action="append", default=[], dest="types", metavar="TYPE", help="only such files: pdf, spreadsheet …"
    )
    command.add_argument(
        "--since", default="", metavar="DAY", help="only files changed on this day (2025-03-31) or later"
    )
    command.add_argument("--until", default="", metavar="DAY", help="only files changed on this day or earlier")
    command.add_argument("--literal", action="store_true", help="read no types, dates and names out of the question")


def _batch(file: str, *keys: str) -> list[tuple[Any, str]]:
    """The lines of a JSONL file as (id, text).

    Raises:
        NothingThere: No such file.
        BadRequest: A line is not `{"id": …, KEY: …}`; the sentence says which.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NothingThere(f"There is no file {file}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"The batch {file} cannot be read: {error}.") from error
    # Not splitlines: U+2028 and its like may stand inside a JSON string.
    return [_batch_line(number, line, keys) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]


def _batch_line(number: int, line: str, keys: Sequence[str]) -> tuple[Any, str]:
    try:
        entry = json.loads(line)
        return entry["id"], next(str(entry[key]) for key in keys if key in entry)
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise BadRequest(f"Line {number} of the batch is not of the form {{'id': …, '{keys[0]}': …}}.") from error


def _password(file: str | None) -> str:
    """The first line of a file ("-" is stdin), or what is typed unseen: on the command line others could read it.

    Raises:
        BadRequest: The file cannot be read, or nobody is there to ask.
    """
    if file is None:
        try:
            return getpass.getpass("Password: ")
        except EOFError as error:
            raise BadRequest("There is nobody to type the password.", "Give it with --password-file FILE.") from error
    try:
        text = sys.stdin.readline() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"The password file {file} cannot be read: {error}.") from error
    return text.split("\n", maxsplit=1)[0].rstrip("\r")


def _named_model(options: argparse.Namespace) -> str:
    if not options.file:
        raise BadRequest(f"'ragdoll models {options.action}' needs a file.")
    return str(options.file)


def _exit_code(error: RagdollError) -> int:
    if isinstance(error, LibraryHeld):
        return EXIT_HELD
    if isinstance(error, NothingThere):
        return EXIT_NOTHING_THERE
    return EXIT_BAD_ARGUMENTS if isinstance(error, BadRequest) else EXIT_FAILED


def _quiet_logs(verbose: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.ERROR,
        format="%(levelname)s %(name)s: %(message)s",
    )
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    sys.setswitchinterval(0.0001)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("a seed is not negative")
    return value


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="one JSON document on stdout")
    common.add_argument("--verbose", action="store_true", help="tell on stderr what is going on")
    parser = argparse.ArgumentParser(prog="ragdoll", description="Chat with your own files, on your own machine.")
    parser.add_argument("--version", action="version", version=f"ragdoll {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace, Output], None], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, parents=[common], help=text, description=text)
        added.set_defaults(run=run)
        return added

    add = command("add", _add, "Index folders and files, and wait for it.")
    add.add_argument("paths", nargs="+", metavar="PATH")
    add.add_argument("--collection", default=DEFAULT_COLLECTION, metavar="NAME")

    search = command("search", _search, "Find passages.")
    search.add_argument("query", nargs="?", metavar="QUERY")
    search.add_argument("--top-k", type=_positive, default=DEFAULT_TOP_K, metavar="N")
    _add_filters(search)
    search.add_argument("--batch", metavar="FILE.jsonl", help='lines of {"id", "query"}')

    ask = command("ask", _ask, "Ask a question.")
    ask.add_argument("question", nargs="?", metavar="QUESTION")
    ask.add_argument("--model", metavar="FILE.gguf", help="answer with this model, this time")
    _add_filters(ask)
    ask.add_argument("--max-tokens", type=_positive, metavar="N")
    ask.add_argument("--seed", type=_seed, metavar="N")
    ask.add_argument("--batch", metavar="FILE.jsonl", help='lines of {"id", "question"}')

    command("status", _status, "What is in the library, and what it takes.")
    command("rescan", _rescan, "Look at all linked folders for what is new, changed or gone.")
    command("watch", _watch, "Keep the library in step with its folders until it is interrupted.")
    settle = command("settle", _settle, "Decide about documents of a folder that went missing at once.")
    settle.add_argument("path", metavar="PATH")
    decision = settle.add_mutually_exclusive_group(required=True)
    decision.add_argument("--remove", action="store_true", help="take them out of the library")
    decision.add_argument("--keep", action="store_true", help="keep what was read of them")

    remove = command("remove", _remove, "Take folders and files out of the library (the files stay).")
    remove.add_argument("paths", nargs="+", metavar="PATH")

    prioritise = command("prioritise", _prioritise, "Read waiting files and folders before all others.")
    prioritise.add_argument("paths", nargs="+", metavar="PATH")

    unlock = command("unlock", _unlock, "Read files that need a password.")
    # Else "--password SECRET" would pass for the name of a file, and be told in the error.
    unlock.allow_abbrev = False
    unlock.add_argument("paths", nargs="+", metavar="PATH")
    unlock.add_argument("--password-file", metavar="FILE", help='its first line is the password ("-" is stdin)')
    unlock.add_argument("--remember", action="store_true", help="keep it in the library for later starts")

    models = command("models", _models, "The GGUF models that can answer.")
    models.add_argument("action", nargs="?", choices=("list", "use", "add"), default="list")
    models.add_argument("file", nargs="?", metavar="FILE", help='a GGUF file, a known name, or "none" (for use)')
    return parser


if __name__ == "__main__":
    sys.exit(main())
