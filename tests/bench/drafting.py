"""Drafting: tokens in a second with prompt lookup and without it, on answers that quote their passages and on others.

`python -m tests.bench.drafting [--quick] [--json FILE]`. Both sides write the same answer on the same model, each in a
context of its own, and take turns: whichever has written less computes next, so that what else the machine does meets
both alike. The computing is real; of answers that quote, the tokens are given (see quoting.py). Where memory can be
confined (a cgroup), a model that does not fit into it is measured too: each pass then reads layers from the disk, as
the engine reads them. What passes of several tokens take beside those of one says how much there is to gain at most.
Exit code 1 when a bound does not hold, or what it is for was not measured; `--quick` (a small model, short answers)
binds nothing.
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

# At least; answers that are written together share passes, in which drafts have less to gain.
BOUNDS = {"quoting": 1.5, "other": 0.97, "together_quoting": 0.97, "quoting_streamed": 1.5}
# Answers that are written side by side. Where a pass for them computes as much as the machine can, drafts gain nothing.
TOGETHER = 4
FREE = SamplingParams(temperature=0.8, seed=SEED)
GREEDY = SamplingParams(temperature=0.0, repeat_penalty=1.0, seed=SEED)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is written: answers of each kind, tokens of each answer, and of the one whose model is streamed."""

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
        "--busy", action="store_true", help="count the processor's time, on one thread: for a machine that does more"
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
        print(f"quoting_streamed is left out: {error}", file=sys.stderr)
        del promised["quoting_streamed"]
    except PeerFailed as error:
        print(error, file=sys.stderr)
    report.show("Drafting", ours, {})
    if options.json:
        report.write(options.json, ours, {}, ratios)
    is_kept = report.show_promised(ratios, promised) and ours["same greedy text"] == 1.0
    return 0 if is_kept or options.quick else 1


def _measure(file: Path, size: Size, pace: Pace) -> tuple[dict[str, float], dict[str, float]]:
    model = Model(file, 0, lambda _: True)
    library = Library(plain_tokens(size.shape.vocabulary), SEED)
    given = SamplingParams(max_tokens=size.tokens, seed=SEED)
    cases = {
        "quoting": ([library.quoting(size.tokens) for _ in range(size.answers)], given, 1),
        "prose": ([library.prose(size.tokens) for _ in range(size.answers)], given, 1),
        "free": ([library.free()], replace(FREE, max_tokens=size.tokens), 1),
        "greedy": ([library.free()], replace(GREEDY, max_tokens=size.tokens), 1),
        # With one passage each: of long prompts the first answer would be written before the last one is read.
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
