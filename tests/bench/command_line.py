"""What the benches take from the command line alike."""

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
    """With `--quick` and `--json FILE`; of `about`, the bench's docstring, the first line is told."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{bench}", description=about.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    return parser


def within_group(measure: Callable[[argparse.Namespace, Group], int], options: argparse.Namespace) -> int:
    """The exit code of `measure`, whose sides run in groups below the one it is given; 2 where that cannot be."""
    try:
        with held_reads(getattr(options, "disk_rate", None)):
            return measure(options, confined.find())
    except (CannotConfine, PeerFailed) as error:
        print(error, file=sys.stderr)
        return 2
