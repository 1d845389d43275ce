"""The door: where other Ragdoll processes of this user find the engine that holds a library, and how they are let in.

A file in the library, which only the user can read, contains the address and a key created for this one engine. Both
sides prove that they know the key without sending it: a stranger learns nothing, and neither does one
that listens at the address of an engine that was killed.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.config import Home, write_atomically

log = logging.getLogger(__name__)
FILE = "engine.door"
# The time to prove the key; and the time for guests to leave once they are sent away.
HANDSHAKE_S, LEAVING_S = 5.0, 1.0
_LOCALHOST = "127.0.0.1"
_BACKLOG = 64
_NONCE_BYTES = _PROOF_BYTES = 32
_FOLDER, _SOCKET = "ragdoll-", "engine"
# sockaddr_un.sun_path holds 108 bytes on Linux, 104 on others; the folder's name is made longer by eight.
_MAX_FOLDER_BYTES = 100 - len(f"/{_FOLDER}12345678/{_SOCKET}")

# The path of a socket, or a local port where sockets have no path.
Address = str | int


class Door:
    """Listens from its creation until it is closed; created by the process that holds the library."""

    def __init__(self, home: Home, receive: Callable[[socket.socket], None]) -> None:
        """Starts to listen; `receive` is called on a thread for each guest, and may take as long as the guest stays.

        Raises:
            OSError: No socket can be opened here.
        """
        self._home, self._receive = home, receive
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._inside: dict[threading.Thread, socket.socket] = {}
        self._is_closed = threading.Event()
        # What a killed engine left.
        _remove(home)
        self._listening, self._address = _listening(home)
        self._thread = threading.Thread(target=self._listen, name="door", daemon=True)
        try:
            told = {"address": self._address, "key": self._key.hex()}
            write_atomically(home.library / FILE, json.dumps(told).encode())
        except BaseException:
            self._listening.close()
            _remove_socket(self._address)
            raise
        self._thread.start()

    def close(self) -> None:
        """Stops listening, and disconnects all guests; waits a moment for them."""
        self._is_closed.set()
        with suppress(OSError):
            (self._home.library / FILE).unlink()
        # This wakes the thread that accepts; on systems where it does not, the connection below does.
        hang_up(self._listening)
        with suppress(OSError):
            _connected(self._address).close()
        self._thread.join(LEAVING_S)
        self._listening.close()
        _remove_socket(self._address)
        with self._lock:
            inside = dict(self._inside)
        for connection in inside.values():
            hang_up(connection)
        until = time.monotonic() + LEAVING_S
        for thread in inside:
            thread.join(max(0.0, until - time.monotonic()))

    def _listen(self) -> None:
        while not self._is_closed.is_set():
            try:
                connection, _ = self._listening.accept()
                self._receive_aside(connection)
            except (OSError, RuntimeError) as error:
                if self._is_closed.is_set():
                    return
                # For example when the process cannot open another file or start another thread.
                log.warning("nobody could be let in: %s", error)
                self._is_closed.wait(1.0)

    def _receive_aside(self, connection: socket.socket) -> None:
        visit = threading.Thread(target=self._let_in, args=(connection,), name="guest", daemon=True)
        with self._lock:
            try:
                visit.start()
            except RuntimeError:
                connection.close()
                raise
            self._inside[visit] = connection

    def _let_in(self, connection: socket.socket) -> None:
        try:
            with connection:
                if not self._is_closed.is_set() and _is_known(connection, self._key):
                    self._receive(connection)
        finally:
            with self._lock:
                self._inside.pop(threading.current_thread(), None)


def knock(home: Home) -> socket.socket | None:
    """Connects to the engine that holds the library; None if no engine of ours listens."""
    try:
        told = json.loads((home.library / FILE).read_bytes())
        address, key = told["address"], bytes.fromhex(told["key"])
        connection = _connected(address)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if _knows_us(connection, key):
        return connection
    connection.close()
    return None


def hang_up(connection: socket.socket) -> None:
    """Ends a connection for both sides, also for a thread that is reading from it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


# --- proving the key ---


def _is_known(connection: socket.socket, key: bytes) -> bool:
    """Returns whether a guest has the key (the engine's side), and proves to it that we have it as well."""
    ours = secrets.token_bytes(_NONCE_BYTES)
    try:
        connection.settimeout(HANDSHAKE_S)
        connection.sendall(ours)
        theirs = _received(connection, _NONCE_BYTES)
        if not hmac.compare_digest(_received(connection, _PROOF_BYTES), _proof(key, b"guest", ours, theirs)):
            return False
        connection.sendall(_proof(key, b"engine", ours, theirs))
        connection.settimeout(None)
    except OSError:
        return False
    return True


def _knows_us(connection: socket.socket, key: bytes) -> bool:
    """Does the same on the guest's side."""
    ours = secrets.token_bytes(_NONCE_BYTES)
    try:
        connection.settimeout(HANDSHAKE_S)
        theirs = _received(connection, _NONCE_BYTES)
        connection.sendall(ours + _proof(key, b"guest", theirs, ours))
        if not hmac.compare_digest(_received(connection, _PROOF_BYTES), _proof(key, b"engine", theirs, ours)):
            return False
        connection.settimeout(None)
    except OSError:
        return False
    return True


def _proof(key: bytes, side: bytes, engines: bytes, guests: bytes) -> bytes:
    return hmac.digest(key, side + engines + guests, "sha256")


def _received(connection: socket.socket, num_bytes: int) -> bytes:
    received = bytearray()
    while len(received) < num_bytes:
        if not (piece := connection.recv(num_bytes - len(received))):
            raise ConnectionError("the other side has gone")
        received += piece
    return bytes(received)


# --- the address ---


def _listening(home: Home) -> tuple[socket.socket, Address]:
    if sys.platform == "win32":
        listening = socket.create_server((_LOCALHOST, 0), backlog=_BACKLOG)
        port: int = listening.getsockname()[1]
        return listening, port
    for folder in (home.runtime, Path(tempfile.gettempdir())):
        with suppress(OSError):
            return _listening_in(folder)
    raise OSError("no folder of ours can hold a socket")


def _listening_in(folder: Path) -> tuple[socket.socket, str]:
    """Listens at a socket in a new folder below this one, which only the user may enter.

    Raises:
        OSError: Its path is too long for a socket, or the file system has no sockets.
    """
    if len(os.fsencode(folder)) > _MAX_FOLDER_BYTES:
        raise OSError(f"the path of {folder} is too long")
    path = os.path.join(tempfile.mkdtemp(prefix=_FOLDER, dir=folder), _SOCKET)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(path)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        _remove_socket(path)
        raise
    return listening, path


def _connected(address: Address) -> socket.socket:
    if isinstance(address, int):
        return socket.create_connection((_LOCALHOST, address), HANDSHAKE_S)
    if sys.platform == "win32":
        raise OSError("sockets have no path here")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(HANDSHAKE_S)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def _remove(home: Home) -> None:
    """Deletes the file, and the socket that it names."""
    file = home.library / FILE
    with suppress(OSError, ValueError, TypeError, KeyError):
        _remove_socket(json.loads(file.read_bytes())["address"])
    with suppress(OSError):
        file.unlink(missing_ok=True)


def _remove_socket(address: Address) -> None:
    if isinstance(address, str) and os.path.basename(address) == _SOCKET:
        folder = Path(address).parent
        if folder.name.startswith(_FOLDER):
            with suppress(OSError):
                Path(address).unlink(missing_ok=True)
                folder.rmdir()
