"""How well passages and quotes are found: SQuAD's paragraphs as files, through the command line, beside peers.

    python -m tests.bench.retrieval_quality [--quick] [--json FILE] [--home FOLDER] [--calibrate]

The 2,067 paragraphs of the dev set of SQuAD 1.1 are indexed with `ragdoll add`, 2,000 seeded questions searched with
`ragdoll search --batch`, and R@k counted over distinct documents. The reader is asked with `ragdoll ask --batch`, on
questions of SQuAD 2.0: how often its quotes hold the gold answer, and how often it quotes where there is none. Peers
search the same chunks. Exit code 1 when R@5 is below the bound.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench import report, retrieval_peers
from tests.bench.squad import Squad, SquadQuestion, contains_answer, figures, read_squad, write_paragraphs
from tests.helpers.shared_data import SHARED_DATA

SQUAD = SHARED_DATA / "qa" / "squad"
SEED = 20_250_415
MIN_R_AT_5 = 0.95
# More than ten, because two chunks of one document take one place.
TOP_K = 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.retrieval_quality", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="500 questions instead of 2,000, 40 for the reader")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--home", type=Path, metavar="FOLDER", help="keep the library there, and use it again")
    parser.add_argument("--calibrate", action="store_true", help="show the scores that the reader's threshold rests on")
    options = parser.parse_args(arguments)
    if not SQUAD.is_dir():
        print(f"The SQuAD dev sets are not at {SQUAD}.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        return _run(options, options.home or Path(folder))


def _run(options: argparse.Namespace, home: Path) -> int:
    squad = read_squad(SQUAD / "dev-v1.1.json")
    asked = squad.sample(500 if options.quick else 2000, SEED)
    ours, peers = _search(squad, asked, home.absolute())
    # Told at once: what comes next takes as long again, and a run that is stopped then has not been for nothing.
    report.show("passages", ours, peers)
    print(
        f"  R@5 {ours['R@5']:.3f}, bound {MIN_R_AT_5}: {'kept' if ours['R@5'] >= MIN_R_AT_5 else 'BROKEN'}", flush=True
    )
    halves = _reader_questions(squad, 40 if options.quick else 400)
    if options.calibrate:
        _calibrate(halves[0], home)
    quoted = _read(halves[1], home)
    report.show("quotes", quoted, {})
    ours |= quoted
    if options.json:
        report.write(options.json, ours, peers)
    return 0 if ours["R@5"] >= MIN_R_AT_5 else 1


# --- passages ---


def _search(
    squad: Squad, asked: Sequence[SquadQuestion], home: Path
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Our figures and those of the peers, over the same chunks and questions."""
    files = write_paragraphs(squad, home / "paragraphs")
    start = time.monotonic()
    added = json.loads(_ragdoll(home, "add", str(home / "paragraphs"), "--json"))
    add_seconds = time.monotonic() - start
    assert added["documents"]["indexed"] + added["documents"]["unchanged"] == len(files), added["documents"]
    texts, right = [one.text for one in asked], [one.paragraph for one in asked]
    start = time.monotonic()
    found = _batch(home, "search", "query", texts, "--top-k", str(TOP_K))
    ours = figures([[_number(passage) for passage in line["passages"]] for line in found], right)
    ours |= {"add_s": add_seconds, "search_s_per_question": (time.monotonic() - start) / len(asked)}
    return ours, _peers(home, texts, right)


def _peers(home: Path, texts: Sequence[str], right: Sequence[int]) -> dict[str, dict[str, float]]:
    rows = retrieval_peers.stored_rows(home / "data" / "library")
    paragraph_of = _paragraphs_of_rows(home, [row.text for row in rows])
    words, meaning = retrieval_peers.by_words(rows, texts), retrieval_peers.by_meaning(rows, texts)
    rankings = {"LanceDB BM25": words, "dense": meaning, "RRF k=60": retrieval_peers.fused([words, meaning])}
    return {
        name: figures([[paragraph_of[row] for row in found] for found in ranking], right)
        for name, ranking in rankings.items()
    }


def _paragraphs_of_rows(home: Path, texts: Sequence[str]) -> list[int]:
    """The paragraph that each row's text was cut from."""
    paragraphs = [file.read_text(encoding="utf-8") for file in sorted((home / "paragraphs").iterdir())]
    whole = {text.strip(): number for number, text in enumerate(paragraphs)}
    return [
        whole[text] if text in whole else next(number for number, of in enumerate(paragraphs) if text in of)
        for text in texts
    ]


def _number(passage: dict[str, Any]) -> int:
    return int(Path(passage["document"]).stem)


# --- quotes ---


def _reader_questions(squad: Squad, count: int) -> tuple[list[SquadQuestion], list[SquadQuestion]]:
    """Two halves of a sample of SQuAD 2.0, about as many without an answer as with one: to calibrate, to report."""
    second = read_squad(SQUAD / "dev-v2.0.json")
    known = set(squad.paragraphs)
    sample = [one for one in second.sample(2 * count, SEED) if second.paragraphs[one.paragraph] in known]
    return sample[::2], sample[1::2]


def _read(questions: Sequence[SquadQuestion], home: Path) -> dict[str, float]:
    lines = _batch(home, "ask", "question", [one.text for one in questions])
    quotes = [[quote["text"] for quote in line["quotes"]] for line in lines]
    pairs = list(zip(questions, quotes, strict=True))
    with_answer = [(one, quoted) for one, quoted in pairs if one.answers]
    without = [quoted for one, quoted in pairs if not one.answers]
    held = sum(contains_answer(quoted, one.answers) for one, quoted in with_answer)
    held_first = sum(contains_answer(quoted[:1], one.answers) for one, quoted in with_answer)
    return {
        "quotes hold gold answer": held / len(with_answer),
        "first quote holds gold answer": held_first / len(with_answer),
        "quoted when there is an answer": sum(bool(quoted) for _, quoted in with_answer) / len(with_answer),
        "false answers (SQuAD 2.0)": sum(bool(quoted) for quoted in without) / len(without),
    }


def _calibrate(questions: Sequence[SquadQuestion], home: Path) -> None:
    """Prints, for shares of answerable questions that keep a quote, the threshold and its false answers."""
    from engine import Engine
    from engine.retrieval.reader import Reader

    with Engine.open(home) as engine:
        found = engine.search_many([one.text for one in questions], top_k=6)
        embedder = engine._stores().embedder
        best = [
            max((c.score for c in Reader(embedder).scored(one.text, evidence.passages)), default=0.0)
            for one, evidence in zip(questions, found, strict=True)
        ]
    answerable = sorted(score for score, one in zip(best, questions, strict=True) if one.answers)
    without = [score for score, one in zip(best, questions, strict=True) if not one.answers]
    for share in (0.99, 0.95, 0.9, 0.8):
        threshold = answerable[int((1 - share) * len(answerable))]
        false = sum(score >= threshold for score in without) / len(without)
        print(f"  quoting {share:.0%} of the answerable: threshold {threshold:.3f}, false answers {false:.3f}")


# --- the command line ---


def _batch(home: Path, command: str, key: str, texts: Sequence[str], *more: str) -> list[dict[str, Any]]:
    file = home / f"{command}.jsonl"
    file.write_text("".join(json.dumps({"id": n, key: text}) + "\n" for n, text in enumerate(texts)))
    lines = [json.loads(line) for line in _ragdoll(home, command, "--batch", str(file), *more, "--json").splitlines()]
    assert [line["id"] for line in lines] == list(range(len(texts)))
    return lines


def _ragdoll(home: Path, *arguments: str) -> str:
    print(f"  ragdoll {' '.join(arguments[:3])} …", file=sys.stderr)
    environment = os.environ | {"RAGDOLL_HOME": str(home)}
    command = [sys.executable, "-m", "engine.cli", *arguments]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
