"""The command line: every command with its options, and the function that runs it."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from engine import __version__
from engine.cli import collections, embedders, library, models, questions, rerankers, settings
from engine.cli.output import Output
from engine.core import DEFAULT_COLLECTION

DEFAULT_TOP_K = 6

Run = Callable[[argparse.Namespace, Output], None]
AddCommand = Callable[[str, Run, str], argparse.ArgumentParser]


def make_parser() -> argparse.ArgumentParser:
    """Makes the parser of all commands; each sets its function as `run` in the parsed options."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="one JSON document on stdout")
    common.add_argument("--verbose", action="store_true", help="log to stderr")
    parser = argparse.ArgumentParser(prog="ragdoll", description="Chat with your own files, on your own machine.")
    parser.add_argument("--version", action="version", version=f"ragdoll {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Run, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, parents=[common], help=text, description=text)
        added.set_defaults(run=run)
        return added

    _declare_add(command)
    _declare_questions(command)
    _declare_library(command)
    _declare_models(command)
    _declare_serve(command)
    return parser


def _declare_add(command: AddCommand) -> None:
    add = command("add", library.add, "Index folders and files, and wait for it.")
    add.add_argument("paths", nargs="+", metavar="PATH")
    add.add_argument("--collection", metavar="NAME", help=f"default: {DEFAULT_COLLECTION}, or its present name")


def _declare_questions(command: AddCommand) -> None:
    search = command("search", questions.search, "Find passages.")
    search.add_argument("query", nargs="?", metavar="QUERY")
    search.add_argument("--top-k", type=_positive, default=DEFAULT_TOP_K, metavar="N")
    _add_filters(search)
    search.add_argument("--batch", metavar="FILE.jsonl", help='lines of {"id", "query"}')

    ask = command("ask", questions.ask, "Ask a question.")
    ask.add_argument("question", nargs="?", metavar="QUESTION")
    ask.add_argument("--model", metavar="MODEL", help='answer with this model: a GGUF file, a known name or "none"')
    _add_filters(ask)
    ask.add_argument("--no-files", action="store_true", help="the model alone answers; nothing is searched")
    ask.add_argument("--max-tokens", type=_positive, metavar="N")
    ask.add_argument("--seed", type=_seed, metavar="N")
    ask.add_argument("--temperature", type=float, metavar="T", help="0 always chooses the likeliest token")
    ask.add_argument("--stop", action="append", metavar="TEXT", help="stop before this text; can be repeated")
    ask.add_argument(
        "--sampling", action="append", default=[], metavar="NAME=VALUE",
        help="any other sampling parameter, for example top_k=20, dry_multiplier=0.8 or logit_bias=[[128001,-5]]",
    )  # fmt: skip
    ask.add_argument("--instructions", metavar="TEXT", help="instructions for the answer, such as its language or form")
    ask.add_argument("--answers", type=_positive, metavar="N", help="write N answers to the question")
    ask.add_argument("--beams", type=_positive, metavar="N", help="beam search with N beams for the likeliest answer")
    form = ask.add_mutually_exclusive_group()
    form.add_argument("--json-schema", metavar="FILE", help="the answer is JSON that fits this schema")
    form.add_argument("--grammar", metavar="FILE", help="the answer fits this grammar (GBNF)")
    many = ask.add_mutually_exclusive_group()
    many.add_argument("--batch", metavar="FILE.jsonl", help='lines of {"id", "question"}, optionally with "model"')
    many.add_argument("--each-file", action="store_true", help="ask each file separately; answers come as they finish")


def _declare_library(command: AddCommand) -> None:
    command("status", library.status, "Show what is in the library, and its size.")
    command("rescan", library.rescan, "Look in all linked folders for new, changed and deleted files.")
    command("watch", _watch, "Keep the library in step with its folders until interrupted.")
    settle = command("settle", library.settle, "Decide about documents of a folder that went missing at once.")
    settle.add_argument("path", metavar="PATH")
    decision = settle.add_mutually_exclusive_group(required=True)
    decision.add_argument("--remove", action="store_true", help="take them out of the library")
    decision.add_argument("--keep", action="store_true", help="keep what was read of them")

    remove = command("remove", library.remove, "Take folders and files out of the library (the files stay).")
    remove.add_argument("paths", nargs="+", metavar="PATH")

    text = "List, rename or delete collections."
    named = command("collections", collections.collections, text)
    named.add_argument("action", nargs="?", choices=("list", "rename", "delete"), default="list")
    named.add_argument(
        "names", nargs="*", metavar="NAME",
        help="rename: the present name and the new one; delete: the name (the files stay on the disk, but leave the "
        "library unless another collection has them)",
    )  # fmt: skip

    prioritise = command("prioritise", library.prioritise, "Index waiting files and folders before all others.")
    prioritise.add_argument("paths", nargs="+", metavar="PATH")

    unlock = command("unlock", library.unlock, "Read files that need a password.")
    # Otherwise "--password SECRET" would be taken for the name of a file, and appear in the error.
    unlock.allow_abbrev = False
    unlock.add_argument("paths", nargs="+", metavar="PATH")
    unlock.add_argument("--password-file", metavar="FILE", help='the first line is the password ("-" is stdin)')
    unlock.add_argument("--remember", action="store_true", help="keep the password in the library for later starts")


def _declare_models(command: AddCommand) -> None:
    shelf = command("models", models.models, "List, choose, download or delete the GGUF models that write answers.")
    actions = ("list", "use", "add", "forget", "find", "get", "search", "delete", "measure")
    shelf.add_argument("action", nargs="?", choices=actions, default="list")
    shelf.add_argument(
        "file", nargs="?", metavar="FILE",
        help='use: a GGUF file, known name or "none"; add: a GGUF file; forget: one of the list (its file stays); '
        "delete: a downloaded model; find: nothing (looks where other applications keep their models); get: a name "
        "that get lists without one, a link to the Hugging Face hub, OWNER/NAME/FILE.gguf, or OWNER/NAME to list its "
        "files",
    )  # fmt: skip
    shelf.add_argument(
        "words", nargs="*", metavar="WORD",
        help="search: the words that are sent to the Hugging Face hub",
    )  # fmt: skip

    meaning = command("embedders", embedders.embedders, "The embedding models, which find passages by meaning.")
    meaning.add_argument("action", nargs="?", choices=("list", "get", "use", "delete"), default="list")
    meaning.add_argument(
        "name", nargs="?", metavar="NAME",
        help='get: a name of the list, a link to the Hugging Face hub, or OWNER/NAME; use: also a folder or '
        '"built-in"; delete: a downloaded model',
    )  # fmt: skip

    second = command("rerankers", rerankers.rerankers, "The rerankers, which read the best passages a second time.")
    second.add_argument("action", nargs="?", choices=("list", "get", "use", "delete"), default="list")
    second.add_argument(
        "name", nargs="?", metavar="NAME",
        help='get: a name of the list, a link to the Hugging Face hub, or OWNER/NAME; use: also a folder or "none"; '
        "delete: a downloaded reranker",
    )  # fmt: skip

    knobs = command("settings", settings.settings, "Show or change settings of the engine.")
    knobs.add_argument(
        "names", nargs="*", metavar="NAME[=VALUE]",
        help="for example memory.may_lose=true; values are JSON, and null restores the automatic value",
    )  # fmt: skip


def _declare_serve(command: AddCommand) -> None:
    text = "Serve an OpenAI-compatible API to other applications on this computer, until interrupted."
    serving = command("serve", _serve, text)
    serving.add_argument("--port", type=_port, metavar="N", help="the port to listen on; 0 is any free port")


# These commands run an engine of their own, which takes a second to import; the others may be answered by a window.


def _watch(options: argparse.Namespace, out: Output) -> None:
    from engine.cli.watch import watch

    watch(options, out)


def _serve(options: argparse.Namespace, out: Output) -> None:
    from engine.cli.serve import serve

    serve(options, out)


def _add_filters(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--collection", action="append", default=[], dest="collections", metavar="NAME",
        help="only this collection; can be repeated",
    )  # fmt: skip
    command.add_argument("--in", action="append", default=[], dest="paths", metavar="PATH", help="only below this path")
    command.add_argument(
        "--type", action="append", default=[], dest="types", metavar="TYPE", help="only such files: pdf, spreadsheet …"
    )
    command.add_argument(
        "--since", default="", metavar="DAY", help="only files changed on this day (2025-03-31) or later"
    )
    command.add_argument("--until", default="", metavar="DAY", help="only files changed on this day or earlier")
    command.add_argument("--literal", action="store_true", help="read no types, dates and names from the question")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**16:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("a seed is not negative")
    return value
