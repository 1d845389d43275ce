"""Tests for engine.door: who is let in to a running engine, and what is left of one that was killed."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from engine import door as door_module
from engine.config import Home
from engine.door import FILE, Door, knock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets have no path there")
PATIENCE_S = 20.0


class Hall:
    """Whoever comes in is told so, and may stay until they or we end it."""

    def __init__(self) -> None:
        self.num_guests = 0
        self.has_left = threading.Event()

    def receive(self, connection: socket.socket) -> None:
        self.num_guests += 1
        # Who leaves with our welcome unread, or before it, is gone all the same.
        with suppress(ConnectionError):
            connection.sendall(b"welcome\n")
            assert connection.recv(1) == b""
        self.has_left.set()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home.under(tmp_path / "home")
    home.create()
    return home


@pytest.fixture
def hall() -> Hall:
    return Hall()


@pytest.fixture
def door(home: Home, hall: Hall) -> Iterator[Door]:
    with closing(Door(home, hall.receive)) as door:
        yield door


def told(home: Home) -> dict[str, str]:
    return dict(json.loads((home.library / FILE).read_text()))


def rewrite(home: Home, **changes: str) -> None:
    (home.library / FILE).write_text(json.dumps({**told(home), **changes}))


def test_who_can_read_the_file_is_let_in(home: Home, hall: Hall, door: Door) -> None:
    connection = knock(home)
    assert connection is not None
    with connection:
        assert connection.recv(100) == b"welcome\n"
    assert hall.has_left.wait(PATIENCE_S)


def test_the_file_and_the_socket_are_the_users_alone_and_leave_with_the_engine(home: Home, door: Door) -> None:
    place = Path(told(home)["address"])
    assert stat.S_IMODE((home.library / FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    door.close()
    assert not (home.library / FILE).exists()
    assert not place.parent.exists()
    assert knock(home) is None


@pytest.mark.expects_warnings
def test_who_finds_no_thread_left_is_sent_away_and_the_next_is_let_in(
    home: Home, hall: Hall, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert knock(home) is None
    connection = knock(home)
    assert connection is not None
    connection.close()


def test_who_has_another_key_is_told_nothing(home: Home, hall: Hall, door: Door) -> None:
    rewrite(home, key="00" * 32)
    assert knock(home) is None
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(told(home)["address"])
        said = stranger.recv(1000)
        stranger.sendall(b"x" * 64)
        assert (len(said), stranger.recv(1000)) == (32, b"")
    assert hall.num_guests == 0


def test_a_stranger_who_has_our_address_learns_no_key_and_is_asked_nothing(home: Home, hall: Hall, door: Door) -> None:
    heard = list[bytes]()

    def listen(stranger: socket.socket) -> None:
        connection, _ = stranger.accept()
        with connection:
            connection.sendall(b"n" * 32)
            while piece := connection.recv(1000):
                heard.append(piece)
                connection.sendall(b"p" * 32)

    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(f"{folder}/s")
        stranger.listen()
        listening = threading.Thread(target=listen, args=(stranger,))
        listening.start()
        rewrite(home, address=f"{folder}/s")
        assert knock(home) is None
        listening.join(PATIENCE_S)
    key = bytes.fromhex(told(home)["key"])
    assert len(b"".join(heard)) == 64
    assert key not in b"".join(heard)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"address": "/nowhere", "key": "00"}', '{"address": 5, "key": 5}']
)
def test_a_file_that_says_nothing_of_use_is_as_none(home: Home, content: str) -> None:
    (home.library / FILE).write_text(content)
    assert knock(home) is None
    with closing(Door(home, Hall().receive)):
        assert set(told(home)) == {"address", "key"}


def test_what_a_killed_engine_left_is_harmless_and_goes_with_the_next(home: Home, hall: Hall) -> None:
    killed = Path(tempfile.mkdtemp(prefix="ragdoll-", dir=home.runtime)) / "engine"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(killed))
    (home.library / FILE).write_text(json.dumps({"address": str(killed), "key": "00" * 32}))
    assert knock(home) is None
    with closing(Door(home, hall.receive)):
        connection = knock(home)
        assert connection is not None
        connection.close()
        assert not killed.parent.exists()


def test_nothing_else_is_removed_that_the_file_names(home: Home, tmp_path: Path) -> None:
    (tmp_path / "engine").touch()
    (home.library / FILE).write_text(json.dumps({"address": str(tmp_path / "engine"), "key": "00" * 32}))
    Door(home, Hall().receive).close()
    assert (tmp_path / "engine").exists()


def test_closing_sends_everybody_away_and_waits_for_nobody_who_proves_nothing(
    home: Home, hall: Hall, door: Door
) -> None:
    guest = knock(home)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(told(home)["address"])
        assert len(silent.recv(1000)) == 32
        assert guest is not None
        with guest:
            assert guest.recv(100) == b"welcome\n"
            door.close()
            assert (guest.recv(1), silent.recv(1)) == (b"", b"")
    assert hall.has_left.is_set()


def test_a_folder_with_a_long_path_has_its_socket_elsewhere(tmp_path: Path, hall: Hall) -> None:
    home = Home.under(tmp_path / ("long" * 30))
    home.create()
    with closing(Door(home, hall.receive)):
        assert len(os.fsencode(told(home)["address"])) <= 100
        connection = knock(home)
        assert connection is not None
        connection.close()


def test_where_no_socket_can_lie_it_lies_elsewhere(home: Home, hall: Hall, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = replace(home, runtime=tmp_path / "file")
    with closing(Door(home, hall.receive)):
        connection = knock(home)
        assert connection is not None
        connection.close()


def test_where_nobody_can_be_heard_nothing_is_left(home: Home, hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: Path, content: bytes) -> None:
        raise OSError("The disk is full.")

    monkeypatch.setattr(door_module, "write_atomically", full)
    was = sorted(home.runtime.iterdir())
    with pytest.raises(OSError, match="full"):
        Door(home, hall.receive)
    assert sorted(home.runtime.iterdir()) == was
