"""Python environments for peers whose dependencies conflict with ours, layered on the one that runs the bench.

The peer's packages come first on the path, and ours follow: both sides use the same torch and other libraries.
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
    """Returns a Python with `packages` in `folder`, created if needed; on failure, prints why and returns None."""
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        behind = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        (behind / "behind.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    if _can_import(interpreter, imports):
        return interpreter
    command = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        print(f"{', '.join(packages)} could not be installed, so these peers are not measured.", file=sys.stderr)
        return None
    return interpreter


def environment() -> dict[str, str]:
    """Returns our environment variables, with our packages on the path and without downloads and telemetry."""
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
