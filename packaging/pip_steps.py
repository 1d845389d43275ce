"""pip, step by step: where torch comes from, how long a step takes, and what its failures mean in plain words.

pip's own words go to a log file; the terminal shows the step, the time it takes, and one sentence if it fails.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

from system_needs import Missing

TorchSource = Literal["plain", "cpu index"]
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
INDEX_TIMEOUT_SECONDS = 10
# What a torch wheel depends on when it carries code for an accelerator.
_ACCELERATOR = re.compile(r"^(nvidia|cuda|triton|pytorch-triton|rocm|intel-sycl)", re.IGNORECASE)

# (what pip's log says, what is wrong, what to do), the first that fits.
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device|Errno 28|Disk quota exceeded",
        "The disk is full.",
        "Make room and start again; what is installed so far is kept. pip unpacks in TMPDIR, which may be elsewhere.",
    ),
    (
        r"CMAKE_C(XX)?_COMPILER|CMake (configuration|build) failed|Failed building wheel for llama",
        "llama.cpp could not be built.",
        "It needs compilers for C and C++, and CMake; on Debian: sudo apt-get install -y build-essential cmake",
    ),
    (
        r"Temporary failure in name resolution|Name or service not known|nodename nor servname|Network is unreachable"
        r"|Failed to establish a new connection|ReadTimeout|Connection(Error|Reset| refused)|ProxyError|Max retries",
        "The package index cannot be reached.",
        "Setting up downloads about 1 GB, once; a proxy is taken from HTTPS_PROXY. After that no network is needed.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError",
        "The package index answers with a certificate that is not trusted here.",
        "Behind a company proxy, name its certificate: PIP_CERT=/path/to/ca.pem ./packaging/bootstrap",
    ),
    (
        r"Permission denied|Errno 13",
        "Files of the environment may not be written.",
        "Was it made by another user (root)? Remove the .venv folder and start again.",
    ),
    (
        r"No matching distribution found|Could not find a version",
        "A package that Ragdoll needs is not offered for this Python on this machine.",
        "Python 3.11 to 3.13 on 64-bit Linux have them all; RAGDOLL_PYTHON=/path/to/python chooses another.",
    ),
)


def torch_source(report: Mapping[str, Any] | None, has_gpu: bool, system: str, machine: str) -> TorchSource:
    """Whether plain pip is right for torch here, or its CPU index should be tried first.

    Args:
        report: What `pip install --dry-run --report` says about torch; None when it could not be had.
        has_gpu: An NVIDIA GPU is present, so the gigabytes of CUDA are wanted.
        system: As `platform.system()`; only on Linux does PyPI's wheel bring CUDA.
        machine: As `platform.machine()`.
    """
    if has_gpu or system != "Linux" or report is None:
        return "plain"
    metadata = next(
        (item["metadata"] for item in report.get("install", ()) if item["metadata"]["name"] == "torch"), None
    )
    if metadata is None or "+cpu" in metadata["version"]:
        return "plain"
    brings = [r for r in metadata.get("requires_dist", ()) if _ACCELERATOR.match(r) and _applies(r, machine)]
    return "cpu index" if brings else "plain"


def _applies(requirement: str, machine: str) -> bool:
    marked = re.search(r"platform_machine\s*==\s*[\"'](\w+)[\"']", requirement)
    return marked is None or marked[1] == machine


def meaning(log: str) -> tuple[str, str]:
    """What a failed pip run comes to: a sentence and a way out. What nobody foresaw is quoted."""
    for pattern, sentence, way_out in _MEANINGS:
        if re.search(pattern, log):
            return sentence, way_out
    last = [f"    {line[:200]}" for line in log.splitlines() if line.strip()][-8:]
    return "\n".join(
        ["pip could not install what Ragdoll needs:", *last]
    ), "Starting again takes up where this stopped."


@dataclass(frozen=True, slots=True)
class Pip:
    """The pip of one environment, writing to one log.

    `say` prints a line; `terminal` is where the running time is shown, rewritten in place if it is a terminal.
    """

    python: Path
    log: Path
    say: Callable[[str], None]
    terminal: TextIO

    def install(self, title: str, *arguments: str, patience: str = "", compiler_flags: str = "") -> None:
        """Runs `pip install` under a title; what it compiles has these flags, beside those of the environment.

        Raises:
            Missing: pip failed; the sentence says what that means.
        """
        if not self.try_install(title, *arguments, patience=patience, compiler_flags=compiler_flags):
            sentence, way_out = meaning(self._last_run())
            raise Missing(sentence, f"{way_out}\nThe whole log: {self.log}")

    def try_install(self, title: str, *arguments: str, patience: str = "", compiler_flags: str = "") -> bool:
        """Runs `pip install`; False when it failed."""
        began = time.monotonic()
        if patience:
            self.say(f"  ({patience})")
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ pip install {' '.join(arguments)}\n")
            log.flush()
            process = subprocess.Popen(
                [str(self.python), "-m", "pip", "install", "--progress-bar", "off", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=quiet_environment() | with_flags(os.environ, compiler_flags),
            )
            code = _watch(process, title, self.terminal)
        self.say(f"  {title}: {'done' if code == 0 else 'failed'} after {clock(time.monotonic() - began)}")
        return code == 0

    def report(self, requirement: str) -> dict[str, Any] | None:
        """What pip would install for `requirement`, without its dependencies; None when it cannot tell."""
        done = subprocess.run(
            [
                *(str(self.python), "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed"),
                *("--quiet", "--report", "-", requirement),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=quiet_environment(),
            check=False,
        )
        try:
            return dict(json.loads(done.stdout))
        except ValueError:
            return None

    def has(self, name: str, version: str) -> bool:
        """True where distribution `name` is installed in `version`, with or without a local tag such as +cpu."""
        probe = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]).split('+')[0])"
        done = subprocess.run([str(self.python), "-c", probe, name], capture_output=True, text=True, check=False)
        return done.returncode == 0 and done.stdout.strip() == version

    def _last_run(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace").rpartition("\n$ pip install ")[2]


def install_torch(pip: Pip, version: str, has_gpu: bool) -> None:
    """Gets torch from the place that fits this machine; a CPU index that does not answer is not waited for.

    Raises:
        Missing: pip could not install it from anywhere.
    """
    requirement = f"torch=={version}"
    if pip.has("torch", version):
        return
    source = torch_source(pip.report(requirement), has_gpu, platform.system(), platform.machine())
    if source == "cpu index":
        limits = ("--timeout", str(INDEX_TIMEOUT_SECONDS), "--retries", "1")
        if pip.try_install("torch (CPU build)", "--index-url", PYTORCH_CPU_INDEX, *limits, requirement):
            return
        pip.say("  PyTorch's CPU index does not answer; plain pip brings a build for NVIDIA cards, some 2 GB larger.")
    pip.install("torch", requirement)


def quiet_environment() -> dict[str, str]:
    return {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def with_flags(environment: Mapping[str, str], flags: str) -> dict[str, str]:
    """The variables by which CMake compiles with these flags as well."""
    return {name: f"{environment.get(name, '')} {flags}".strip() for name in ("CFLAGS", "CXXFLAGS") if flags}


def clock(seconds: float) -> str:
    """`m:ss`, for people who wait."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _watch(process: subprocess.Popen[bytes], title: str, terminal: TextIO) -> int:
    """Waits, showing that time passes: in place on a terminal, a line a minute elsewhere."""
    began, is_terminal = time.monotonic(), terminal.isatty()
    every = 1.0 if is_terminal else 60.0
    try:
        while True:
            try:
                return process.wait(timeout=every)
            except subprocess.TimeoutExpired:
                line = f"  {title} … {clock(time.monotonic() - began)}"
                terminal.write(f"\r{line}" if is_terminal else f"{line}\n")
                terminal.flush()
    finally:
        if is_terminal:
            terminal.write("\r\033[K")
        if process.poll() is None:
            process.terminate()
            process.wait()
