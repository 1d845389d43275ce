"""Tests for app.single_instance: the second start speaks to the first, in this process and from another."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalSocket

from app.single_instance import SingleInstance, paths_in, socket_address

ROOT = Path(__file__).resolve().parents[2]
IN_ROOT = {**os.environ, "PYTHONPATH": str(ROOT)}
SECOND = """
import sys
import threading
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.single_instance import SingleInstance
application = QCoreApplication([])
instance = SingleInstance(Path(sys.argv[1]))
assert not instance.claim()
sys.exit(0 if instance.forward(tuple(sys.argv[2:])) else 9)
"""


@pytest.fixture
def first(qapp, tmp_path):
    instance = SingleInstance(tmp_path / "window.lock")
    assert instance.claim()
    yield instance
    instance.release()


def second_start(lock_file: Path, *paths: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SECOND, str(lock_file), *paths], cwd=ROOT)


def test_a_second_start_hands_its_paths_over_and_is_told_that_it_was_heard(qtbot, first, tmp_path):
    first.listen()
    with qtbot.wait_signal(first.called, timeout=30_000) as called:
        second = second_start(tmp_path / "window.lock", "/a b", "/c\nd", "/三")
    assert called.args == [("/a b", "/c\nd", "/三")]
    qtbot.wait_until(lambda: second.poll() is not None, timeout=30_000)
    assert second.returncode == 0


def test_as_many_paths_as_a_command_line_takes_are_heard(qtbot, first, tmp_path):
    first.listen()
    paths = tuple(f"/{number}/{'三' * 200}" for number in range(2000))
    (tmp_path / "second.py").write_text(SECOND.replace("tuple(sys.argv[2:])", repr(paths)))
    with qtbot.wait_signal(first.called, timeout=30_000) as called:
        second = subprocess.Popen([sys.executable, tmp_path / "second.py", tmp_path / "window.lock"], env=IN_ROOT)
    assert called.args == [paths]
    qtbot.wait_until(lambda: second.poll() is not None, timeout=30_000)
    assert second.returncode == 0


def test_a_second_start_without_paths_still_calls(qtbot, first, tmp_path):
    first.listen()
    with qtbot.wait_signal(first.called, timeout=30_000) as called:
        second = second_start(tmp_path / "window.lock")
    assert called.args == [()]
    qtbot.wait_until(lambda: second.poll() is not None, timeout=30_000)


def test_a_first_window_that_does_not_hear_is_told(first, tmp_path):
    assert second_start(tmp_path / "window.lock", "/a").wait(60) == 9


def test_once_released_the_next_start_is_a_first_one(qapp, tmp_path):
    for _ in range(2):
        instance = SingleInstance(tmp_path / "window.lock")
        assert instance.claim()
        instance.listen()
        instance.release()


def test_a_lock_left_by_a_killed_process_is_taken(qapp, tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path; from app.single_instance import SingleInstance;"
        "instance = SingleInstance(Path(sys.argv[1])); assert instance.claim();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "window.lock")], cwd=ROOT, check=False)
    assert (tmp_path / "window.lock").exists()
    instance = SingleInstance(tmp_path / "window.lock")
    assert instance.claim()
    instance.release()


@pytest.mark.parametrize(
    "left",
    [
        pytest.param("", id="cut short"),
        pytest.param("1\npython3.11\nanother-computer\n{0}\n{0}\n", id="of another computer"),
        pytest.param("{1}\npython3.11\nanother-computer\n{0}\n{0}\n", id="with the number of a process here"),
    ],
)
def test_what_a_stick_brings_from_elsewhere_holds_no_lock(qapp, tmp_path, left):
    (tmp_path / "window.lock").write_text(left.format("0123456789abcdef0123456789abcdef", os.getpid()))
    instance = SingleInstance(tmp_path / "window.lock")
    assert instance.claim()
    assert second_start(tmp_path / "window.lock").wait(60) == 9
    instance.release()


def test_a_claim_waits_for_a_window_that_is_about_to_close(qapp, first, tmp_path):
    second = SingleInstance(tmp_path / "window.lock")
    assert not second.claim(wait_ms=50)
    closing = threading.Timer(0.1, first.release)
    closing.start()
    assert second.claim(wait_ms=10_000)
    closing.join()
    second.release()


def test_a_folder_that_cannot_be_written_is_an_error(qapp, tmp_path):
    with pytest.raises(OSError, match="cannot be written"):
        SingleInstance(tmp_path / "missing" / "window.lock").claim()


@pytest.fixture
def disk_without_locks(tmp_path, monkeypatch) -> Callable[[int], Path]:
    """Has the file that it returns not be locked, for the reason of that number; the temporary folder is another."""
    fcntl = pytest.importorskip("fcntl")
    flock, lock_file = fcntl.flock, tmp_path / "window.lock"
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))

    def be(reason: int) -> Path:
        def flock_here(opened: int, operation: int) -> None:
            if os.path.samestat(os.fstat(opened), lock_file.stat()):
                raise OSError(reason, os.strerror(reason))
            flock(opened, operation)

        monkeypatch.setattr(fcntl, "flock", flock_here)
        return lock_file

    return be


@pytest.mark.parametrize("reason", ["ENOSYS", "ENOTSUP", "EOPNOTSUPP", "ENOLCK"])
def test_where_a_disk_knows_no_locks_there_is_one_window_all_the_same(qapp, tmp_path, disk_without_locks, reason):
    lock_file = disk_without_locks(getattr(errno, reason))
    first, second, other = (SingleInstance(file) for file in (lock_file, lock_file, tmp_path / "other.lock"))
    assert first.claim()
    assert not second.claim()
    assert other.claim()
    other.release()
    first.release()
    assert second.claim()
    second.release()
    (made,) = (tmp_path / "temporary").iterdir()
    assert made.stat().st_mode & 0o777 == 0o600


def test_a_link_that_somebody_put_in_the_temporary_folder_is_not_followed(qapp, tmp_path, disk_without_locks):
    lock_file = disk_without_locks(errno.ENOLCK)
    instance = SingleInstance(lock_file)
    assert instance.claim()
    instance.release()
    (made,) = (tmp_path / "temporary").iterdir()
    made.unlink()
    made.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=f"{made} cannot be written"):
        instance.claim()
    assert not (tmp_path / "elsewhere").exists()


def test_a_disk_that_fails_is_an_error(qapp, disk_without_locks):
    lock_file = disk_without_locks(errno.EIO)
    with pytest.raises(OSError, match=r"window\.lock cannot be written"):
        SingleInstance(lock_file).claim()


def test_windows_of_one_data_folder_are_one_though_their_runtime_folders_are_two(qapp, tmp_path):
    lock_file = tmp_path / "window.lock"
    first, second = (SingleInstance(lock_file, tmp_path / name / "window.socket") for name in ("one", "two"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert first.claim()
    assert not second.claim()
    first.release()
    assert second.claim()
    second.release()


def test_the_socket_is_where_it_is_said_to_be(qtbot, tmp_path):
    (tmp_path / "run").mkdir()
    one, other = (SingleInstance(tmp_path / "window.lock", tmp_path / "run" / "window.socket") for _ in range(2))
    assert one.claim()
    one.listen()
    assert (tmp_path / "run" / "window.socket").exists()
    assert not (tmp_path / "window.socket").exists()
    assert not other.claim()
    one.release()


def test_a_window_of_an_earlier_version_is_found_open(qapp, tmp_path):
    (tmp_path / "run").mkdir()
    earlier = SingleInstance(tmp_path / "run" / "window.lock")
    assert earlier.claim()
    later = SingleInstance(tmp_path / "window.lock", tmp_path / "run" / "window.socket")
    assert not later.claim()
    # What it had taken it has given back.
    another = SingleInstance(tmp_path / "window.lock")
    assert another.claim()
    another.release()
    earlier.release()


def test_an_earlier_version_finds_the_window_open(qapp, tmp_path):
    (tmp_path / "run").mkdir()
    later = SingleInstance(tmp_path / "window.lock", tmp_path / "run" / "window.socket")
    assert later.claim()
    earlier = SingleInstance(tmp_path / "run" / "window.lock")
    assert not earlier.claim()
    later.release()
    assert earlier.claim()
    earlier.release()


@pytest.mark.parametrize("reason", ["EROFS", "EACCES"])
def test_where_nothing_can_be_written_beside_the_chats_there_is_one_window_all_the_same(
    qapp, tmp_path, monkeypatch, reason
):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    number, real = getattr(errno, reason), os.open

    def refuse(path, *arguments, **options):
        if path == tmp_path / "window.lock":
            raise OSError(number, os.strerror(number))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    first, second = (SingleInstance(tmp_path / "window.lock") for _ in range(2))
    assert first.claim()
    assert not second.claim()
    first.release()


def test_a_caller_who_talks_nonsense_is_hung_up_on(qtbot, first, tmp_path):
    first.listen()
    socket = QLocalSocket()
    socket.connectToServer(socket_address(tmp_path / "window.socket"))
    with qtbot.assert_not_emitted(first.called), qtbot.wait_signal(socket.disconnected):
        socket.write(b'{"paths": [1, 2]}\n')


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'{"paths": "x"}', b'{"paths": [1]}', b"\xff"])
def test_only_a_list_of_texts_is_a_message(line):
    assert paths_in(line) is None


def test_a_path_too_long_for_a_socket_gets_a_short_name_of_its_own():
    one, other = (socket_address(Path("/" + "x" * 200) / name / "window.socket") for name in ("a", "b"))
    assert len(one.encode()) < 100
    assert one != other
