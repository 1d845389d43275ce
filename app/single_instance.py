"""One window per data folder: a second start hands its paths to the first, which comes to the front.

The lock decides, because the system releases it however its process ends; the local socket only carries the paths.
The content of the lock file is ignored, because data folders may be copied between computers.
If a disk supports no locks or is read-only, the lock is in the temporary folder: one window per data folder and
computer. Earlier versions had the lock beside the socket; that one is held as well, so that they are detected.
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

# Qt's sockets are imported where they are needed: only the lock is taken before the first paint.
_TIMEOUT_MS = 3000
_AGAIN_S = 0.02
# Errors of disks without locks: Lustre mounted without `flock`, NFS without lockd, some FUSE file systems.
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
# Errors of disks that cannot be written.
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
# More than the paths of any command line need.
_MAX_MESSAGE_BYTES = 2**24
# sockaddr_un.sun_path holds 108 bytes on Linux, 104 on others.
_MAX_SOCKET_PATH_BYTES = 100


class SingleInstance(QObject):
    """`claim` first; then either `listen` or `forward`."""

    called = Signal(object)  # a tuple of absolute paths from a second start, often empty: come to the front

    def __init__(self, lock_file: Path, socket_file: Path | None = None, parent: QObject | None = None) -> None:
        """By default, the socket lies beside the lock."""
        super().__init__(parent)
        self._lock_file = lock_file
        self._socket_file = socket_file or lock_file.with_suffix(".socket")
        # File descriptors, open and locked as long as the window lives.
        self._held: list[int] = []
        self._server: QLocalServer | None = None
        self._heard: dict[QLocalSocket, bytearray] = {}

    def claim(self, wait_ms: int = 0) -> bool:
        """Returns whether we are the first, waiting if necessary. Raises OSError if the lock cannot be written."""
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
        # We hold the lock, so no process uses a socket that is still there.
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
        """Stops answering second starts, which then wait until we have ended."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def release(self) -> None:
        """Releases the lock, so that the next start becomes the first."""
        self.stop_listening()
        held, self._held = self._held, []
        for opened in held:
            os.close(opened)

    def _claimed(self) -> list[int]:
        """Takes the lock and that of earlier versions; returns [] if another window has one of them."""
        lock = _claimed(self._lock_file)
        if lock is None:
            return []
        former = self._socket_file.with_suffix(".lock")
        if former == self._lock_file:
            return [lock]
        try:
            second = _locked(former)
        except OSError:
            # No lock can be taken there, so no earlier version has one.
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
    """Takes the lock as `_locked` does, on its own disk or, if that supports none, in the temporary folder."""
    try:
        return _locked(lock_file)
    except OSError as error:
        if error.errno not in (*_NO_LOCKS, *_READ_ONLY):
            raise
    # Other users can write there too: their links must not lead us to our own files.
    return _locked(_in_temporary_folder(lock_file).with_suffix(".lock"), getattr(os, "O_NOFOLLOW", 0))


def _locked(file: Path, more_flags: int = 0) -> int | None:
    """Opens and locks a file until it is closed or the process ends; returns None if another process has the lock."""
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
    """Locks an open file. Raises BlockingIOError or, on Windows, PermissionError if another process has the lock."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)


def paths_in(line: bytes) -> tuple[str, ...] | None:
    """Returns the paths of a message; None if the message is not ours."""
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
    """Returns the file's path, or a unique name in the temporary folder if that path is too long for a socket."""
    if len(os.fsencode(socket_file)) <= _MAX_SOCKET_PATH_BYTES:
        return str(socket_file)
    return str(_in_temporary_folder(socket_file))


def _in_temporary_folder(file: Path) -> Path:
    """Returns a name in the temporary folder that is unique to this file."""
    import hashlib
    import tempfile

    digest = hashlib.sha256(os.fsencode(file.with_suffix(".socket"))).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"ragdoll-{digest}"
