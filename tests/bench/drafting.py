"""Speedup from prompt lookup (drafting): tokens per second with and without drafts, for quoting and other answers.

    python -m tests.bench.drafting [--quick] [--json FILE] [--threads N] [--busy] [--peers FOLDER]

Two sides write the same answer on the same model of 1B shape, each in a context of its own. Whichever has written less
takes the next step, so that other load on the machine affects both alike. The computing is real; the tokens of an
answer that quotes are given (quoting.py), because a model of random weights quotes nothing. Where memory can be limited
(a control group), a model of which only half fits is measured too: each pass then reads layers from the disk through
the engine's own ring (streamed_duel.py). Ratios are tokens per second with drafts ÷ without:

- `quoting`: one answer at a time that quotes its passages.
- `other`: answers that quote nothing, the lowest of three cases: given prose, free sampling, and four prose answers at
  once.
- `together_quoting`: four quoting answers at once. They share passes, so there is less to gain.
- `quoting_streamed`: a quoting answer while half of the model is streamed.

Besides the ratios, `most by passes` shows the speedup that the measured pass times would allow if every draft were
accepted. Greedy answers must be the same with and without drafts. Lower bounds are in `BOUNDS`. Exit code 1 if one does
not hold or was not measured, 2 if only the streamed model could not be measured because memory cannot be limited;
`--quick` (a small model, short answers, about two minutes) checks none.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core import SamplingParams
from engine.generation.model import Model
from engine.own_cores import physical_cores
from tests.bench import ending, peers, report, streamed_duel
from tests.bench.bench_model import ONE_BILLION, QUICK, Shape, bench_model, plain_tokens
from tests.bench.command_line import parser_of
from tests.bench.confined import CannotConfine
from tests.bench.duel import Duel, Pace, duel
from tests.bench.peers import PeerFailed
from tests.bench.quoting import SEED, Library

# Lower bounds; answers that are written together share passes, so drafts gain less.
BOUNDS = {"quoting": 1.5, "other": 0.97, "together_quoting": 0.97, "quoting_streamed": 1.5}
# Answers written at once. Where a pass for them already saturates the processor, drafts gain nothing.
TOGETHER = 4
FREE = SamplingParams(temperature=0.8, seed=SEED)
GREEDY = SamplingParams(temperature=0.0, repeat_penalty=1.0, seed=SEED)


@dataclass(frozen=True, slots=True)
class Size:
    """`answers` of each kind and `tokens` of each; `streamed_tokens` of the one whose model is streamed."""

    shape: Shape
    answers: int
    tokens: int
    streamed_tokens: int


FULL = Size(ONE_BILLION, answers=3, tokens=300, streamed_tokens=60)
BRIEF = Size(QUICK, answers=1, tokens=150, streamed_tokens=40)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("drafting", __doc__, quick="a small model and short answers, in about two minutes")
    parser.add_argument("--threads", type=int, default=physical_cores(), metavar="N")
    parser.add_argument(
        "--busy", action="store_true", help="measure processor time on one thread, for a machine with other load"
    )
    peers.add_folder_option(parser)
    options = parser.parse_args(arguments)
    size = BRIEF if options.quick else FULL
    pace = Pace(1, time.process_time) if options.busy else Pace(options.threads)
    file = bench_model(options.peers, size.shape)
    ours, ratios = _measure(file, size, pace)
    promised = dict(BOUNDS)
    try:
        streamed = streamed_duel.figures(file, size.shape.vocabulary, size.streamed_tokens, options.threads)
        ours |= {f"quoting_streamed {name}": value for name, value in streamed.items()}
        ratios["quoting_streamed"] = streamed["with drafts"] / streamed["without"]
    except CannotConfine as error:
        print(f"quoting_streamed was not measured: {error}", file=sys.stderr)
        del promised["quoting_streamed"]
    except PeerFailed as error:
        print(error, file=sys.stderr)
    report.show("Drafting", ours, {})
    if options.json:
        report.write(options.json, ours, {}, ratios)
    is_kept = report.show_promised(ratios, promised) and ours["same greedy text"] == 1.0
    if options.quick:
        return 0
    if not is_kept:
        return 1
    return 0 if promised.keys() == BOUNDS.keys() else 2


def _measure(file: Path, size: Size, pace: Pace) -> tuple[dict[str, float], dict[str, float]]:
    model = Model(file, 0, lambda _: True)
    library = Library(plain_tokens(size.shape.vocabulary), SEED)
    given = SamplingParams(max_tokens=size.tokens, seed=SEED)
    cases = {
        "quoting": ([library.quoting(size.tokens) for _ in range(size.answers)], given, 1),
        "prose": ([library.prose(size.tokens) for _ in range(size.answers)], given, 1),
        "free": ([library.free()], replace(FREE, max_tokens=size.tokens), 1),
        "greedy": ([library.free()], replace(GREEDY, max_tokens=size.tokens), 1),
        # One passage each: with longer prompts the first answer would be finished before the last prompt is read.
        "quoting_together": ([library.quoting(size.tokens, 1) for _ in range(TOGETHER)], given, TOGETHER),
        "prose_together": ([library.prose(size.tokens, 1) for _ in range(TOGETHER)], given, TOGETHER),
    }
    ours: dict[str, float] = {}
    found: dict[str, Duel] = {}
    for name, (answers, params, at_once) in cases.items():
        found[name] = duel(model, answers, params, pace, at_once)
        ours |= {f"{name} {figure}": value for figure, value in found[name].figures.items()}
        report.show(name, found[name].figures, {})
        sys.stdout.flush()
    model.close()
    ours["same greedy text"] = float(found["greedy"].are_same)
    others = min(found[name].ratio for name in ("prose", "free", "prose_together"))
    together = found["quoting_together"].ratio
    return ours, {"quoting": found["quoting"].ratio, "other": others, "together_quoting": together}


if __name__ == "__main__":
    sys.exit(ending.run(main))
