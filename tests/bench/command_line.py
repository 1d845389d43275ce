"""Command line options and exit codes that the benches have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench import confined
from tests.bench.confined import CannotConfine, Group
from tests.bench.disk_rate import held_reads
from tests.bench.peers import PeerFailed


def parser_of(bench: str, about: str, quick: str) -> argparse.ArgumentParser:
    """Returns a parser with `--quick` and `--json FILE`, described by the docstring `about` as it is written."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.bench.{bench}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures and ratios there (JSON)")
    return parser


def within_group(measure: Callable[[argparse.Namespace, Group], int], options: argparse.Namespace) -> int:
    """Returns the exit code of `measure`, given its sides' parent group; 2 if there is none or a side fails."""
    try:
        with held_reads(getattr(options, "disk_rate", None)):
            return measure(options, confined.find())
    except (CannotConfine, PeerFailed) as error:
        print(error, file=sys.stderr)
        return 2
