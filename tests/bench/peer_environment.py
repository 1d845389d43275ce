"""An environment of their own for peers whose dependencies disagree with ours, on top of the one that runs the bench.

Its packages come first and ours, torch above all, lie behind them, so both sides compute with the same libraries.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from tests.bench.peer_process import untuned

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_FOLDER = ROOT / "build" / "bench-peers"


def python(folder: Path, packages: Sequence[str], imports: Sequence[str]) -> Path | None:
    """The interpreter in `folder` that has `packages`, made if need be; None, with the reason told, if it cannot be."""
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        behind = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        (behind / "behind.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    if _can_import(interpreter, imports):
        return interpreter
    command = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        print(f"{', '.join(packages)} could not be installed; the peers are left out.", file=sys.stderr)
        return None
    return interpreter


def environment() -> dict[str, str]:
    """Ours, such that our packages are found, nothing is fetched and nobody is told."""
    return {
        **untuned(),
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "ANONYMIZED_TELEMETRY": "False",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _can_import(interpreter: Path, imports: Sequence[str]) -> bool:
    code = "; ".join(f"import {name}" for name in imports)
    return not subprocess.run(
        [str(interpreter), "-c", code], env=environment(), capture_output=True, check=False
    ).returncode
