"""Tests for tests.bench.peers, tests.bench.peer_process, tests.bench.llama_server and tests.bench.llama_peer."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.bench import peers
from tests.bench.bench_model import bench_model, plain_tokens
from tests.bench.command_line import parser_of
from tests.bench.llama_peer import LlamaProcess
from tests.bench.llama_server import LlamaServer, ServerOptions, read_stream
from tests.bench.peers import PeerFailed
from tests.bench.scripted_server import SERVER, program
from tests.bench.test_bench_model import SMALL

OPTIONS = ServerOptions(num_cells=512, num_threads=1, num_slots=2)


@pytest.fixture(autouse=True)
def _any_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_processor_flags", lambda: "")


def test_a_server_is_built_with_the_flags_of_the_processor_beside_one_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = peers.built(tmp_path)
    monkeypatch.setattr(peers, "_processor_flags", lambda: "-mno-x -mno-y")
    assert peers.built(tmp_path).parents[2].name == f"{plain.parents[2].name}-no_x-no_y"
    assert peers._environment()["CXXFLAGS"].endswith("-mno-x -mno-y")


def test_a_built_server_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers.importlib.metadata, "version", lambda name: "1.2.3")
    binary = tmp_path / "llama.cpp-1.2.3" / "build" / "bin" / "llama-server"
    binary.parent.mkdir(parents=True)
    binary.touch()

    assert peers.llama_server(tmp_path) == binary


def test_a_server_for_a_card_is_built_beside_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers.importlib.metadata, "version", lambda name: "1.2.3")
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_CUDA=on -DCMAKE_CUDA_COMPILER=/usr/bin/nvcc")
    place = peers.built(tmp_path).parents[2]
    assert place == tmp_path / "llama.cpp-1.2.3-ggml_cuda_on-cmake_cuda_compiler_usr_bin_nvcc"
    assert peers.build_commands(place, 2)[0][-2:] == ["-DGGML_CUDA=on", "-DCMAKE_CUDA_COMPILER=/usr/bin/nvcc"]


def test_only_llama_cpp_is_unpacked_of_the_source(tmp_path: Path) -> None:
    archive = tmp_path / "source.tar.gz"
    with tarfile.open(archive, "w:gz") as writing:
        for name in ("pkg-1/setup.py", "pkg-1/vendor/llama.cpp/CMakeLists.txt", "pkg-1/vendor/other/file"):
            writing.addfile(tarfile.TarInfo(name), io.BytesIO())

    with tarfile.open(archive) as reading:
        assert [member.name for member in peers.vendored(reading)] == ["pkg-1/vendor/llama.cpp/CMakeLists.txt"]


def test_the_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(peers.FOLDER_VARIABLE, str(tmp_path / "elsewhere"))

    assert peers.default_folder() == tmp_path / "elsewhere"


def test_a_failed_build_says_where_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers.importlib.metadata, "version", lambda name: "1.2.3")
    monkeypatch.setattr(peers.shutil, "which", lambda name: name)
    monkeypatch.setattr(peers, "build_commands", lambda place, jobs: [[sys.executable, "-c", "raise SystemExit(2)"]])
    (tmp_path / "llama.cpp-1.2.3" / "source").mkdir(parents=True)

    with pytest.raises(PeerFailed, match=r"build\.log"):
        peers.llama_server(tmp_path)


def beside(arguments: list[str], folder: Path, measure: Callable[[Path | None], bool]) -> int:
    """Returns the exit code of a bench that is run with these arguments."""
    parser = parser_of("nothing", "Measures nothing.", quick="less than nothing")
    peers.add_options(parser, alone="only us")
    options = parser.parse_args([*arguments, "--peers", str(folder)])
    return peers.run_beside(options, lambda _, server: measure(server))


def test_a_quick_run_builds_nothing_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert beside(["--quick"], tmp_path, lambda server: server is None) == 0
    assert "python -m tests.bench.peers" in capsys.readouterr().err


def test_a_run_without_peers_asks_for_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert beside(["--no-peers"], tmp_path, lambda server: server is None) == 0
    assert capsys.readouterr().err == ""


def test_a_bound_binds_all_but_quick_runs(tmp_path: Path) -> None:
    binary = peers.built(tmp_path)
    binary.parent.mkdir(parents=True)
    binary.touch()

    assert beside([], tmp_path, lambda server: server == binary) == 0
    assert beside([], tmp_path, lambda server: False) == 1
    assert beside(["--quick"], tmp_path, lambda server: False) == 0


def test_a_run_whose_peer_fails_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def measure(server: Path | None) -> bool:
        raise PeerFailed("llama-server ended.")

    assert beside(["--quick"], tmp_path, measure) == 2
    assert capsys.readouterr().err.endswith("llama-server ended.\n")


def test_tokens_are_timed_as_they_come() -> None:
    events = [{"tokens": [5]}, {"tokens": [6, 7]}, {"tokens": [], "stop": True, "timings": {"cache_n": 40}}]
    told: list[float] = []

    streamed = read_stream([b"data: " + json.dumps(one).encode() for one in events], 0.0, told.append)

    assert len(streamed.token_seconds) == 3
    assert list(streamed.token_seconds) == told == sorted(told)
    assert streamed.tokens == (5, 6, 7)
    assert streamed.cached_tokens == 40


@pytest.mark.parametrize("lines", [[], [b'data: {"error": {"message": "no room"}}']])
def test_a_broken_stream_is_no_answer(lines: list[bytes]) -> None:
    with pytest.raises(PeerFailed):
        read_stream(lines, 0.0, lambda seconds: None)


def test_a_server_is_asked_once_it_is_healthy_and_gone_after_its_block(tmp_path: Path) -> None:
    with LlamaServer.started(program(tmp_path, SERVER), Path("model.gguf"), OPTIONS) as server:
        process = psutil.Process().children()[-1]
        streamed = server.complete([1, 2, 3, 4], max_tokens=2)
        both = server.complete_all([[1, 2], [1, 2, 3]], [1, 3])

    assert len(streamed.token_seconds) == 2
    assert streamed.cached_tokens == 3
    assert [len(one.token_seconds) for one in both] == [1, 3]
    assert not process.is_running()


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    failing = program(tmp_path, "import sys; sys.exit('no such model')")

    with pytest.raises(PeerFailed, match="no such model"), LlamaServer.started(failing, Path("model.gguf"), OPTIONS):
        pass


def test_llama_cpp_python_answers_and_keeps_what_it_read(tmp_path: Path) -> None:
    prompt = list(plain_tokens(SMALL.vocabulary))[:64]

    with LlamaProcess.started(bench_model(tmp_path, SMALL), num_cells=256, num_threads=1) as llama:
        first, second = (llama.complete(prompt, max_tokens=5) for _ in range(2))

    assert len(first.token_seconds) == len(second.token_seconds) == 5
