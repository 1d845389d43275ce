"""What the benches take from the command line alike."""

from __future__ import annotations

import argparse
from pathlib import Path


def parser_of(bench: str, about: str, quick: str) -> argparse.ArgumentParser:
    """With `--quick` and `--json FILE`; of `about`, the bench's docstring, the first line is told."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{bench}", description=about.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    return parser
