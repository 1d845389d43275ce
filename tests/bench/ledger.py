"""Accuracy of the memory ledger: what it accounts for, compared with the kernel's count, through an engine's life.

    python -m tests.bench.ledger [--chunks N] [--model SHAPE] [--tokens N] [--cache FOLDER] [--json FILE]

Starts a real engine in a control group of its own and reads both counts at the same time: at rest, while it indexes,
with a model, while it answers, and after the model is unloaded. The kernel's count is what cannot be read again from a
file (anonymous and shared memory). The ledger's mapped file pages are shown but not compared: the kernel charges a page
to the group that touched it first, which may be another one.

Exit code 1 if any reading differs by more than 5 % of the kernel's count, 2 if memory cannot be limited.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

from engine import protocol
from engine.core import SamplingParams
from engine.protocol import MemoryReply, Notice
from tests.bench import ending
from tests.bench.bench_model import ONE_BILLION, QUICK, SIX_HUNDRED_MILLION, bench_model
from tests.bench.confined import CannotConfine, Group, confined, find
from tests.bench.report import show, write
from tests.helpers.engine_process import CAREFUL, EngineProcess

MIB = 2**20
LIMIT_BYTES = 12 * 2**30
# The design's bound: the ledger is within this share of the kernel's count.
MAX_ERROR = 0.05
SHAPES = {shape.name: shape for shape in (QUICK, SIX_HUNDRED_MILLION, ONE_BILLION)}
UNACCOUNTED = "unaccounted"
_SECONDS_BETWEEN = 0.5
_ENDS_OF_ANSWERS = (protocol.AnswerFinished, protocol.AnswerFailed, protocol.AnswerCancelled)
WORDS = (
    *("lease", "tenant", "landlord", "notice", "month", "rent", "deposit", "repair", "garden", "window", "kitchen"),
    *("water", "heating", "winter", "summer", "invoice", "payment", "account", "bank", "interest", "contract"),
    *("clause", "party", "agreement", "signature", "witness", "court", "judge", "appeal", "letter", "engine", "wheel"),
    *("train", "station", "ticket", "journey", "mountain", "river", "bridge", "forest", "animal", "weather", "science"),
    *("history", "music", "paint", "teacher", "student", "school", "lesson", "book", "paper", "number", "question"),
)


@dataclass(frozen=True, slots=True)
class Look:
    """One reading: what the ledger accounts for, and the least and most that the kernel counted around it, in bytes.

    `mapped_bytes` are the ledger's file pages, `unaccounted_bytes` what the engine itself could not attribute.
    """

    phase: str
    named_bytes: int
    least_bytes: int
    most_bytes: int
    mapped_bytes: int
    unaccounted_bytes: int
    owners: tuple[tuple[str, int], ...]

    @property
    def error(self) -> float:
        """Returns the ledger's excess as a share of the kernel's count; negative if it accounts for too little."""
        nearest = min(max(self.named_bytes, self.least_bytes), self.most_bytes)
        return (self.named_bytes - nearest) / nearest

    def describe(self) -> str:
        owners = ", ".join(f"{owner} {num_bytes / MIB:.0f}" for owner, num_bytes in self.owners)
        counted = f"{self.least_bytes / MIB:.0f}–{self.most_bytes / MIB:.0f}"
        return (
            f"{self.phase:<16} named {self.named_bytes / MIB:6.0f}  counted {counted:>11}  {self.error:+6.1%}"
            f"  mapped {self.mapped_bytes / MIB:5.0f}  ({owners})"
        )


def look_of(phase: str, memory: MemoryReply, before_bytes: int, after_bytes: int) -> Look:
    """Returns a reading from the engine's reply and the kernel's counts before and after it."""
    spans = [span for tier in memory.tiers if tier.tier == "ram" for span in tier.spans]
    kept = [span for span in spans if not span.is_mapped and span.owner != UNACCOUNTED]
    owners = dict.fromkeys(span.owner for span in kept)
    return Look(
        phase,
        sum(span.num_bytes for span in kept),
        min(before_bytes, after_bytes),
        max(before_bytes, after_bytes),
        sum(span.num_bytes for span in spans if span.is_mapped),
        sum(span.num_bytes for span in spans if span.owner == UNACCOUNTED),
        tuple((owner, sum(span.num_bytes for span in kept if span.owner == owner)) for owner in owners),
    )


def write_documents(folder: Path, num_chunks: int, seed: int = 5) -> Path:
    """Writes text files of about `num_chunks` chunks, of words that are single tokens of the embedding model."""
    random = Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(max(1, num_chunks // 20)):
        paragraphs = (" ".join(random.choices(WORDS, k=180)).capitalize() + "." for _ in range(20))
        (folder / f"document {number}.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")
    return folder


def day(engine: EngineProcess, group: Group, documents: Path, model: Path, answer_tokens: int) -> Iterator[Look]:
    """Yields the readings as they are taken; the engine has `CAREFUL` settings and has done nothing yet."""

    def look(phase: str) -> Look:
        before = group.usage().held_bytes
        memory = engine.result(protocol.MEMORY)
        return look_of(phase, memory, before, group.usage().held_bytes)

    def while_waiting(phase: str, is_over: Callable[[Notice], bool], since: int) -> Iterator[Look]:
        """Yields readings until a notice ends the wait."""
        while not any(is_over(notice) for notice in engine.notices[since:]):
            yield look(phase)
            engine.wait_at_most(_SECONDS_BETWEEN)

    def settled(phase: str) -> Look:
        """Returns the second of two readings at rest: it includes what measuring the first one changed."""
        look(phase)
        return look(phase)

    yield settled("started")
    engine.result(protocol.SEARCH, protocol.Search(query="notice period", top_k=3))
    yield settled("libraries loaded")
    since = len(engine.notices)
    engine.result(protocol.ADD, protocol.AddPaths(paths=(str(documents),)))
    ends = (protocol.IndexFinished, protocol.IndexFailed)
    yield from while_waiting("indexing", lambda notice: isinstance(notice, ends), since)
    yield settled("indexed")
    since = len(engine.notices)
    engine.result(protocol.MODELS_USE, protocol.ModelFile(path=str(model)))
    engine.wait_for(lambda notice: isinstance(notice, protocol.ModelState) and notice.state == "loaded", since)
    yield settled("model loaded")
    for number in range(2):
        since = len(engine.notices)
        sampling = SamplingParams(max_tokens=answer_tokens, temperature=0.0)
        ask = protocol.Ask(question_id=f"q{number}", text="When does the lease end?", sampling=sampling)
        engine.result(protocol.ASK, ask)
        yield from while_waiting("answering", lambda notice: isinstance(notice, _ENDS_OF_ANSWERS), since)
    yield settled("answered")
    since = len(engine.notices)
    engine.result(protocol.MODELS_UNLOAD)
    engine.wait_for(lambda notice: isinstance(notice, protocol.ModelState) and notice.state == "none", since)
    yield settled("unloaded")


def figures(looks: list[Look]) -> dict[str, float]:
    """Returns median and worst error of each phase, and what the engine held at its end."""
    found: dict[str, float] = {}
    for phase in dict.fromkeys(look.phase for look in looks):
        errors = [abs(look.error) for look in looks if look.phase == phase]
        name = phase.replace(" ", "_")
        found[f"{name}_median_error"] = median(errors)
        found[f"{name}_worst_error"] = max(errors)
        found[f"{name}_mib"] = next(look for look in reversed(looks) if look.phase == phase).most_bytes / MIB
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--chunks", type=int, default=600, help="number of passages to index")
    arguments.add_argument("--model", choices=sorted(SHAPES), default="quick", help="the model's shape")
    arguments.add_argument("--tokens", type=int, default=128, help="length of each answer in tokens")
    arguments.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "ragdoll-bench")
    arguments.add_argument("--json", type=Path, default=None, help="also write all figures there (JSON)")
    chosen = arguments.parse_args()
    try:
        parent = find()
    except CannotConfine as error:
        print(error, file=sys.stderr)
        return 2
    model = bench_model(chosen.cache, SHAPES[chosen.model])
    with tempfile.TemporaryDirectory() as folder, confined(LIMIT_BYTES, parent) as group:
        documents = write_documents(Path(folder) / "documents", chosen.chunks)
        looks: list[Look] = []
        with EngineProcess(Path(folder) / "home", None, CAREFUL, entered=group.entered) as engine:
            for look in day(engine, group, documents, model, chosen.tokens):
                print(look.describe(), flush=True)
                looks.append(look)
    ours = figures(looks)
    show("ledger", ours, {}, {name: MAX_ERROR for name in ours if name.endswith("error")})
    if chosen.json is not None:
        write(chosen.json, ours, {})
    return 0 if all(abs(look.error) <= MAX_ERROR for look in looks) else 1


if __name__ == "__main__":
    sys.exit(ending.run(main))
