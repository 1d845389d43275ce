"""One window per data folder: a second start hands its paths to the first, which comes to the front.

The lock decides, because the system lets it go when its process ends in whatever way; the local socket only carries.
What is in the lock's file, or left there by another computer, is nothing: data folders travel on sticks.
Where a disk knows no locks, or lets nothing be written, the lock is in the temporary folder: one window per data folder
and computer. Earlier versions had it beside the socket, so that is held as well: whoever of them is open is found.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from PySide6.QtNetwork import QLocalServer, QLocalSocket

# What carries is imported where it is needed: the lock is taken before the first paint, all else comes after it.
_TIMEOUT_MS = 3000
_AGAIN_S = 0.02
# What disks say that know no locks: Lustre mounted without `flock`, NFS without lockd, some of FUSE.
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
# Nor is anything of ours written there.
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
# More than the paths of any command line take, written as they are here.
_MAX_MESSAGE_BYTES = 2**24
# sockaddr_un.sun_path holds 108 bytes on Linux, 104 on others.
_MAX_SOCKET_PATH_BYTES = 100


class SingleInstance(QObject):
    """`claim` first; then either `listen` or `forward`."""

    called = Signal(object)  # a tuple of absolute paths from a second start, often empty: come to the front

    def __init__(self, lock_file: Path, socket_file: Path | None = None, parent: QObject | None = None) -> None:
        """The socket lies beside the lock unless it is said where."""
        super().__init__(parent)
        self._lock_file = lock_file
        self._socket_file = socket_file or lock_file.with_suffix(".socket")
        # Open, and locked, as long as the window lives.
        self._held: list[int] = []
        self._server: QLocalServer | None = None
        self._heard: dict[QLocalSocket, bytearray] = {}

    def claim(self, wait_ms: int = 0) -> bool:
        """Whether we are the first, if need be after waiting; raises OSError where the lock cannot be written."""
        until = time.monotonic() + wait_ms / 1000
        try:
            while not (held := self._claimed()) and time.monotonic() < until:
                time.sleep(_AGAIN_S)
        except OSError as error:
            raise OSError(f"{error.filename or self._lock_file} cannot be written") from error
        self._held = held
        return bool(held)

    def listen(self) -> None:
        """Waits for second starts; only this user can call."""
        import logging

        from PySide6.QtNetwork import QLocalServer

        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connection)
        # We hold the lock, so a socket that is still there belongs to nobody.
        QLocalServer.removeServer(socket_address(self._socket_file))
        if not self._server.listen(socket_address(self._socket_file)):
            logging.getLogger(__name__).info("second starts cannot be heard: %s", self._server.errorString())

    def forward(self, paths: tuple[str, ...]) -> bool:
        """Hands `paths` to the first window; returns whether it heard us."""
        import json

        from PySide6.QtNetwork import QLocalSocket

        socket = QLocalSocket()
        socket.connectToServer(socket_address(self._socket_file))
        if not socket.waitForConnected(_TIMEOUT_MS):
            return False
        socket.write(json.dumps({"paths": paths}).encode() + b"\n")
        # The first window closes the connection once it has understood.
        return socket.waitForDisconnected(_TIMEOUT_MS)

    def stop_listening(self) -> None:
        """From now on a second start is not heard, and waits until we are gone."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def release(self) -> None:
        """The next start is a first one again."""
        self.stop_listening()
        held, self._held = self._held, []
        for opened in held:
            os.close(opened)

    def _claimed(self) -> list[int]:
        """The lock, and that of earlier versions; [] where another window has one of them."""
        lock = _claimed(self._lock_file)
        if lock is None:
            return []
        former = self._socket_file.with_suffix(".lock")
        if former == self._lock_file:
            return [lock]
        try:
            second = _locked(former)
        except OSError:
            # There it is none.
            return [lock]
        if second is None:
            os.close(lock)
            return []
        return [lock, second]

    def _on_connection(self) -> None:
        while self._server is not None and (socket := self._server.nextPendingConnection()) is not None:
            self._heard[socket] = bytearray()
            socket.readyRead.connect(lambda socket=socket: self._on_bytes(socket))
            socket.disconnected.connect(lambda socket=socket: self._forget(socket))
            self._on_bytes(socket)

    def _on_bytes(self, socket: QLocalSocket) -> None:
        heard = self._heard.get(socket)
        if heard is None:
            return
        heard += bytes(socket.readAll().data())
        if b"\n" in heard or len(heard) > _MAX_MESSAGE_BYTES:
            line = bytes(heard).partition(b"\n")[0]
            socket.disconnectFromServer()
            paths = paths_in(line)
            if paths is not None:
                self.called.emit(paths)

    def _forget(self, socket: QLocalSocket) -> None:
        self._heard.pop(socket, None)
        socket.deleteLater()


def _claimed(lock_file: Path) -> int | None:
    """The lock as `_locked` has it, on its own disk or, where that has none, in the temporary folder."""
    try:
        return _locked(lock_file)
    except OSError as error:
        if error.errno not in (*_NO_LOCKS, *_READ_ONLY):
            raise
    # Others write there too: no link of theirs leads us to a file of our own.
    return _locked(_in_temporary_folder(lock_file).with_suffix(".lock"), getattr(os, "O_NOFOLLOW", 0))


def _locked(file: Path, more_flags: int = 0) -> int | None:
    """The file, opened and locked until it is closed, be it by the end of the process; None where another has it."""
    opened = os.open(file, os.O_RDWR | os.O_CREAT | more_flags, 0o600)
    try:
        _lock(opened)
    except (BlockingIOError, PermissionError):
        os.close(opened)
        return None
    except BaseException:
        os.close(opened)
        raise
    return opened


def _lock(opened: int) -> None:
    """Raises BlockingIOError or, on Windows, PermissionError where another has it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)


def paths_in(line: bytes) -> tuple[str, ...] | None:
    """The paths of a message; None where it is none of ours."""
    import json

    try:
        body = json.loads(line)
    except ValueError:
        return None
    paths = body.get("paths") if isinstance(body, dict) else None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        return None
    return tuple(paths)


def socket_address(socket_file: Path) -> str:
    """Itself; where that path is too long for a socket, a name of its own in the temporary folder."""
    if len(os.fsencode(socket_file)) <= _MAX_SOCKET_PATH_BYTES:
        return str(socket_file)
    return str(_in_temporary_folder(socket_file))


def _in_temporary_folder(file: Path) -> Path:
    """A name that belongs to this file alone."""
    import hashlib
    import tempfile

    digest = hashlib.sha256(os.fsencode(file.with_suffix(".socket"))).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"ragdoll-{digest}"
