"""Indexing throughput of the application, compared with our embedder alone and with LangChain and Chroma.

    python -m tests.bench.indexing [--quick] [--json FILE] [--peers FOLDER] [--no-peers]

`ours`: our engine adds a sample of real documents (PDF, Markdown, text; 2,000 chunks) to a fresh library. It parses
them in child processes, chunks, embeds and writes them and makes them searchable. Peers:

- `embedder_alone`: our embedder in its best configuration embeds the same chunks and does nothing else: an upper bound.
- `langchain_chroma`: LangChain loads and splits the same files with its own loaders; Chroma embeds and stores our
  chunks of them with HuggingFaceEmbeddings of the same model at its defaults.
- `langchain_chroma_tuned`: the same with our embedder.
- `langchain_chroma_from_texts`, `langchain_chroma_tuned_from_texts`: the same runs without the time of LangChain's
  loading; ours includes it.

Ratios have these names: chunks per second, ours ÷ theirs. Libraries and weights are loaded before any clock starts. The
contenders take turns in alternating order, ours and the embedder in five rounds, LangChain in two. The best round of
each counts, and a ratio compares as many rounds of ours as the peer had. LangChain runs in an environment of its own,
created by the first run (`--peers`); without it, its ratios are left out. A peer that fails is left out from then on.

Lower bounds are in `BOUNDS`; with native bfloat16, `langchain_chroma` must reach 2.0. Exit code 1 if one does not hold,
or a peer failed before its first result, 2 without documents; `--quick` takes 300 chunks and one round (within five
minutes) and checks the bounds too.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.config import EmbedderSettings, Home, LibrarySettings
from engine.embedder import Embedder, resolve
from engine.engine import Engine
from engine.errors import DocumentUnreadable
from engine.library.chunker import indexed_text
from engine.library.parsers.pool import ParserPool
from engine.memory.heap import lean_heap
from engine.memory.ledger import Ledger
from tests.bench import ending, peer_environment, report, stages
from tests.bench.peers import PeerFailed
from tests.bench.warm_embedder import warm_at_once
from tests.helpers.parsing import pool_of
from tests.helpers.shared_data import SHARED_DATA

DOCUMENTS = SHARED_DATA / "docs"
SUFFIXES = (".pdf", ".md", ".txt")
SEED = 20_250_415
PACKAGES = ["langchain-huggingface", "langchain-chroma", "langchain-text-splitters", "langchain-community", "pypdf"]
IMPORTS = ["langchain_huggingface", "langchain_chroma", "langchain_text_splitters", "langchain_community", "pypdf"]
# Where the processor has native bfloat16, `langchain_chroma` must be twice as slow as ours.
BOUNDS = {"embedder_alone": 0.93, "langchain_chroma": 1.1, "langchain_chroma_tuned": 1.0}
BOUND_WITH_BFLOAT16 = 2.0
# With no OCR languages, pages that need OCR are recognised by their remark on every machine alike.
NO_LANGUAGES = ("none",)
MAX_PEER_SECONDS, MAX_PEER_ROUNDS = 1800, 2


@dataclass(frozen=True)
class Sample:
    """Files in a folder of their own, and the chunks they are cut into."""

    folder: Path
    files: int
    chunks: tuple[str, ...]

    @property
    def characters(self) -> int:
        return sum(map(len, self.chunks))


@dataclass
class Contest:
    """Seconds by contender; the best round of each counts."""

    sample: Sample
    cache: Path
    work: Path
    peers: Path | None
    seconds: dict[str, list[float]] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    loaded_characters_per_s: float = 0.0
    storing_seconds: float = 0.0
    failed: set[str] = field(default_factory=set)

    def run(self, rounds: int) -> None:
        contenders: list[tuple[str, Callable[[], float]]] = [("ours", self.ours), ("embedder_alone", self.alone)]
        if self.peers is not None:
            contenders += [
                ("langchain_chroma", lambda: self.peer("default")),
                ("langchain_chroma_tuned", lambda: self.peer("tuned")),
            ]
        for number in range(rounds):
            # Ours and the embedder differ by less than the machine's speed varies within a minute, so they take more
            # rounds.
            turn = contenders if number < MAX_PEER_ROUNDS else contenders[:2]
            for name, measure in turn if number % 2 == 0 else reversed(turn):
                if name in self.failed:
                    continue
                try:
                    seconds = measure()
                except PeerFailed as error:
                    print(f"  {name} failed, and is left out: {error}", file=sys.stderr, flush=True)
                    self.failed.add(name)
                    continue
                print(f"  {name}: {len(self.sample.chunks) / seconds:.2f} chunks/s", file=sys.stderr, flush=True)
                self.seconds.setdefault(name, []).append(seconds)
                if name.startswith("langchain"):
                    self.seconds.setdefault(f"{name}_from_texts", []).append(self.storing_seconds)

    def prepare(self) -> None:
        """Lets the embedder's self-test choose the configuration that all contenders share."""
        embedder = self._embedder()
        embedder.embed_documents(self.sample.chunks[:1])
        print(f"  our embedder: {embedder.description}", file=sys.stderr, flush=True)
        embedder.unload()

    def ours(self) -> float:
        """Adds the folder to a fresh library, once libraries and weights are loaded."""
        home = Home.under(self.work / f"home-{len(self.seconds.get('ours', ()))}")
        home = Home(home.data, home.config, self.cache, home.logs, home.runtime)
        first = self.work / "first.md"
        first.write_text("A few words to wake the libraries up.\n")
        with Engine(home) as engine:
            engine.add([first])
            with stages.clocked() as busy:
                begun = time.perf_counter()
                finished = engine.add([self.sample.folder])
                seconds = time.perf_counter() - begun
        assert finished.chunks >= len(self.sample.chunks), finished
        self.shares = {stage: spent / seconds for stage, spent in busy.items()}
        return seconds

    def alone(self) -> float:
        """Embeds the chunks and nothing else, in our best configuration."""
        embedder = self._embedder()
        embedder.embed_documents(self.sample.chunks[:16])
        begun = time.perf_counter()
        embedder.embed_documents(self.sample.chunks)
        seconds = time.perf_counter() - begun
        embedder.unload()
        return seconds

    def _embedder(self) -> Embedder:
        settings = EmbedderSettings()
        return Embedder(resolve(settings), settings, Ledger(), cache=self.cache)

    def peer(self, what: str) -> float:
        """Runs a peer in a process of its own, which warms up by itself. Raises PeerFailed."""
        assert self.peers is not None
        task = self.work / "task.json"
        content = {
            "chunks": self.sample.chunks,
            "folder": str(self.sample.folder),
            "model": str(resolve(EmbedderSettings()).folder),
            "cache": str(self.cache),
        }
        task.write_text(json.dumps(content), encoding="utf-8")
        try:
            done = subprocess.run(
                [str(self.peers), "-m", "tests.bench.indexing_peers", what, str(task)],
                cwd=peer_environment.ROOT,
                env=peer_environment.environment(),
                stdout=subprocess.PIPE,
                timeout=MAX_PEER_SECONDS,
                check=True,
                text=True,
            )
            found = json.loads(done.stdout.splitlines()[-1])
        except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
            raise PeerFailed(str(error)) from error
        self.storing_seconds = float(found["storing_seconds"])
        self.loaded_characters_per_s = found["characters"] / (found["seconds"] - self.storing_seconds)
        return float(found["seconds"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.indexing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="300 chunks and one round, within five minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures and ratios there (JSON)")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", default=peer_environment.DEFAULT_FOLDER)
    parser.add_argument("--no-peers", action="store_true", help="measure only our side and our embedder alone")
    options = parser.parse_args(arguments)
    if not DOCUMENTS.is_dir():
        print(f"The documents are missing: {DOCUMENTS} does not exist.", file=sys.stderr)
        return 2
    lean_heap()  # as the application does
    peers = None if options.no_peers else peer_environment.python(options.peers, PACKAGES, IMPORTS)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        sample = take_sample(work, 300 if options.quick else 2000)
        print(f"{sample.files} files, {len(sample.chunks)} chunks, {sample.characters} characters", file=sys.stderr)
        contest = Contest(sample, work / "cache", work, peers)
        with warm_at_once():
            contest.prepare()
            contest.run(1 if options.quick else 5)
    return told(contest, options.json)


def told(contest: Contest, file: Path | None) -> int:
    """Prints and writes the figures; returns 1 if a bound does not hold."""
    sample = contest.sample
    speeds = {name: len(sample.chunks) / min(seconds) for name, seconds in contest.seconds.items()}
    ours = {
        "chunks_per_s": speeds["ours"],
        "documents_per_s": sample.files / min(contest.seconds["ours"]),
        "characters_per_s": sample.characters / min(contest.seconds["ours"]),
        **{f"share_{stage.replace(' ', '_')}": share for stage, share in contest.shares.items()},
    }
    peers = {name: {"chunks_per_s": speed} for name, speed in speeds.items() if name != "ours"}
    named = {name: ratio(contest.seconds, name) for name in peers}
    report.show("indexing", ours, peers)
    if contest.loaded_characters_per_s:
        print(f"  LangChain's own loaders and splitter: {contest.loaded_characters_per_s:.0f} characters/s")
    if file is not None:
        report.write(file, ours, peers, named)
    has_peers = contest.peers is not None
    promised = {name: bound(name) for name in BOUNDS if has_peers or name in named}
    return 0 if report.show_promised(named, promised) else 1


def ratio(seconds: Mapping[str, Sequence[float]], name: str) -> float:
    """Returns our throughput ÷ a contender's, over the rounds that both had."""
    theirs = seconds[name]
    return min(theirs) / min(seconds["ours"][: len(theirs)])


def bound(name: str) -> float:
    from engine.embedder.backends import formats_worth_trying

    if name == "langchain_chroma" and "bfloat16" in formats_worth_trying():
        return BOUND_WITH_BFLOAT16
    return BOUNDS[name]


def take_sample(work: Path, num_chunks: int) -> Sample:
    """Copies a seeded choice of documents with `num_chunks` distinct chunks into a folder of their own."""
    folder = work / "documents"
    folder.mkdir()
    files = sorted(file for file in DOCUMENTS.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    random.Random(SEED).shuffle(files)
    limits, spec = LibrarySettings(), resolve(EmbedderSettings())
    chunks: dict[str, None] = {}
    taken = 0
    with pool_of(1, limits.parse_seconds, limits.parse_memory_bytes) as pool:
        for file in files:
            texts = chunks_of(pool, file, spec.tokenizer_file, limits)
            # One file must not dominate the sample.
            if not texts or len(texts) > num_chunks // 3:
                continue
            shutil.copyfile(file, folder / f"{taken:04}{file.suffix}")
            chunks.update(dict.fromkeys(texts))
            taken += 1
            if len(chunks) >= num_chunks:
                break
    return Sample(folder, taken, tuple(chunks))


def chunks_of(pool: ParserPool, file: Path, tokenizer: Path | None, limits: LibrarySettings) -> list[str]:
    """Returns the texts that are embedded for a file; none if it cannot be read, or only with OCR."""
    try:
        read = pool.read(
            str(file),
            tokenizer,
            limits.chunk_tokens,
            limits.chunk_overlap_tokens,
            limits.max_file_bytes,
            limits.max_chunks_per_document,
            ocr_languages=NO_LANGUAGES,
        )
    except DocumentUnreadable:
        return []
    # OCR takes as long as it takes, and no peer reads such pages.
    return [] if read.needs or read.remark else [indexed_text(chunk) for chunk in read.chunks]


if __name__ == "__main__":
    sys.exit(ending.run(main))
