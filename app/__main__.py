"""`ragdoll-gui [PATH…]`: opens the window and adds the given paths; `python -m app` does the same."""

from __future__ import annotations

import argparse
import sys

from engine import __version__


def main() -> int:
    """Reads the command line and runs the window; Qt is imported only if there is a window to show."""
    parser = argparse.ArgumentParser(prog="ragdoll-gui", description="Chat with your own files on your own machine.")
    parser.add_argument("paths", metavar="PATH", nargs="*", help="folder or file to add to the library")
    parser.add_argument("--version", action="version", version=f"Ragdoll {__version__}")
    paths = parser.parse_args().paths
    from app.main import run

    return run(paths)


if __name__ == "__main__":
    sys.exit(main())
