"""Prints to a terminal: what a job did, the state of a folder, an answer and its sources."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePath

from engine.cli.output import Output
from engine.core import Alternative, Answer, Collection, Passage
from engine.events import AnswerEnded, AnswerFailed, AnswerFinished, IndexFinished
from engine.protocol import EmbedderState, Folder

_CUT_OFF = "The answer reached its length limit: --max-tokens allows a longer one."


def counted(count: int, noun: str) -> str:
    """Returns a number and a noun in English: "1 document", "2 documents"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def typed(name: str) -> str:
    """Returns a name in a form that is easy to type: "Qwen3 4B" as "qwen3-4b"."""
    return name.lower().replace(" ", "-")


def tell_index(finished: IndexFinished, out: Output) -> None:
    out.line(
        f"{counted(finished.indexed, 'document')} indexed ({counted(finished.chunks, 'chunk')}), "
        f"{finished.unchanged} unchanged, "
        + (f"{finished.removed} removed, " if finished.removed else "")
        + f"in {finished.seconds:.1f} s."
    )
    titles = {"indexed in part": finished.in_part, "skipped": finished.skipped, "failed": finished.failed}
    for title, problems in titles.items():
        for path, reason in problems:
            out.line(f"  {title}: {path}: {reason}")


def tell_collections(collections: Sequence[Collection], folders: Sequence[Folder], out: Output) -> None:
    for collection in collections:
        states = ", ".join(f"{count} {state}" for state, count in collection.documents_by_state.items() if count)
        out.line(f"{collection.name}: {states or 'empty'}; {counted(collection.num_chunks, 'chunk')}")
        for folder in folders:
            if folder.collection == collection.name:
                _tell_folder(folder, out)


def tell_move(embedder: EmbedderState, out: Output) -> None:
    """Prints how far a move is; nothing if the library keeps its embedding model."""
    if embedder.next_name:
        out.line(f"{of_move(embedder)} It goes on in the window, or with ragdoll rescan.")


def of_move(embedder: EmbedderState) -> str:
    """Returns how far the library has moved to another embedding model."""
    moved = f"{embedder.documents_moved} of {embedder.documents_to_move} documents"
    return f"Moving from the embedding model {embedder.name} to {embedder.next_name}: {moved} so far."


def _tell_folder(folder: Folder, out: Output) -> None:
    out.line(f"    {folder.path}" + (f": offline. {folder.absence}" if folder.absence else ""))
    if folder.num_gone:
        out.line(
            f"        {folder.num_gone} of {folder.num_documents} documents went missing at once and are kept: "
            f"ragdoll settle {shlex.quote(folder.path)} --remove or --keep"
        )


def tell_passages(passages: Sequence[Passage], out: Output) -> None:
    for number, passage in enumerate(passages, start=1):
        start = " ".join(passage.text.split())[:300]
        out.line(f"[{number}] {_place(passage)}  ({passage.score:.3f})\n    {start}\n")


def tell_answer(end: AnswerFinished, out: Output, *, searched: bool = True) -> None:
    """Prints an answer and its sources, or that no files were `searched`."""
    answer = end.answer
    out.line(answer.text.strip() or ("Not found in your files." if searched else "The model wrote nothing."))
    for number, other in enumerate(answer.alternatives, start=2):
        out.line(f"\n--- answer {number} ---\n{other.text.strip()}")
    out.line()
    if "length" in {answer.finish_reason, *(other.finish_reason for other in answer.alternatives)}:
        out.line(f"{_CUT_OFF}\n")
    citations = [*answer.citations, *(citation for other in answer.alternatives for citation in other.citations)]
    for index in dict.fromkeys(citation.passage for citation in citations):
        out.line(f"[{index + 1}] {_place(answer.passages[index])}")
    scope = answer.scope
    if not searched:
        out.line("From the model alone: your files were not searched.")
        return
    for recognised in scope.recognised:
        out.line(f"From the question: {recognised}.")
    out.line(_scope_sentence(answer))
    _tell_refreshes(end, out)


def _scope_sentence(answer: Answer) -> str:
    scope = answer.scope
    if not (scope.reads_through and answer.passages):
        return f"From {scope.passages_used} of {scope.passages_found} passages in {counted(scope.files, 'file')}."
    name = PurePath(answer.passages[0].document).name
    if scope.passages_used == scope.passages_found:
        return f"Read all of {name}."
    return f"Read {scope.passages_used} of {scope.passages_found} passages of {name}."


def tell_file_answer(path: str, end: AnswerEnded, out: Output) -> None:
    """Prints the answer of one file: its name, the answer, and the places in it."""
    out.line(path)
    if isinstance(end, AnswerFinished):
        answer = end.answer
        _tell_part(answer.text.strip() or "Nothing found in this file.", answer, answer, out)
        for number, other in enumerate(answer.alternatives, start=2):
            _tell_part(f"--- answer {number} ---\n{other.text.strip()}".strip(), other, answer, out)
    else:
        out.line(_indented(str(end.error) if isinstance(end, AnswerFailed) else "The question was cancelled."))
    out.line()


def _tell_part(text: str, part: Answer | Alternative, answer: Answer, out: Output) -> None:
    """Prints one of the answers of a file, where in it that was found, and whether it was cut off."""
    out.line(_indented(text))
    cited = dict.fromkeys(citation.passage for citation in part.citations)
    places = [f"[{index + 1}] {answer.passages[index].place}" for index in cited if answer.passages[index].place]
    if places:
        out.line(_indented("  ".join(places)))
    if part.finish_reason == "length":
        out.line(_indented(_CUT_OFF))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def _tell_refreshes(end: AnswerFinished, out: Output) -> None:
    """Prints how often passages were added while the answer was being written; nothing if none were."""
    refreshes, hidden_share = end.answer.refreshes, end.timings.hidden_share
    if not refreshes or hidden_share is None:
        return
    added = sum(refresh.num_passages for refresh in refreshes)
    times = "once" if len(refreshes) == 1 else f"{len(refreshes)} times"
    passages = "1 of these passages" if added == 1 else f"{added} of these passages"
    took = f"{end.timings.refresh_retrieval_s:.1f} s, {hidden_share:.0%} of it while writing went on"
    out.line(f"More came {times} while it was written: {passages} (searching took {took}).")


def _place(passage: Passage) -> str:
    where = f"{passage.document}, {passage.place}" if passage.place else passage.document
    return f"{where} (out of reach)" if passage.is_offline else where
