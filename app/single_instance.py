"""One window per data folder: a second start hands its paths to the first, which comes to the front.

The lock file decides, because it is let go when its process ends in whatever way; the local socket only carries.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QLockFile, QObject, Signal

if TYPE_CHECKING:
    from PySide6.QtNetwork import QLocalServer, QLocalSocket

# What carries is imported where it is needed: the lock is taken before the first paint, all else comes after it.
_TIMEOUT_MS = 3000
# More than the paths of any command line take, written as they are here.
_MAX_MESSAGE_BYTES = 2**24
# sockaddr_un.sun_path holds 108 bytes on Linux, 104 on others.
_MAX_SOCKET_PATH_BYTES = 100


class SingleInstance(QObject):
    """`claim` first; then either `listen` or `forward`."""

    called = Signal(object)  # a tuple of absolute paths from a second start, often empty: come to the front

    def __init__(self, lock_file: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = QLockFile(str(lock_file))
        # Held as long as the window lives; a lock left by a process that is gone is seen by its id.
        self._lock.setStaleLockTime(0)
        self._lock_file = lock_file
        self._server: QLocalServer | None = None
        self._heard: dict[QLocalSocket, bytearray] = {}

    def claim(self, wait_ms: int = 0) -> bool:
        """Whether we are the first, if need be after waiting; raises OSError where the lock cannot be written."""
        if self._lock.tryLock(wait_ms):
            return True
        if self._lock.error() == QLockFile.LockError.LockFailedError:
            return False
        raise OSError(f"{self._lock.fileName()} cannot be written")

    def listen(self) -> None:
        """Waits for second starts; only this user can call."""
        import logging

        from PySide6.QtNetwork import QLocalServer

        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connection)
        # We hold the lock, so a socket that is still there belongs to nobody.
        QLocalServer.removeServer(socket_address(self._lock_file))
        if not self._server.listen(socket_address(self._lock_file)):
            logging.getLogger(__name__).info("second starts cannot be heard: %s", self._server.errorString())

    def forward(self, paths: tuple[str, ...]) -> bool:
        """Hands `paths` to the first window; returns whether it heard us."""
        import json

        from PySide6.QtNetwork import QLocalSocket

        socket = QLocalSocket()
        socket.connectToServer(socket_address(self._lock_file))
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
        self._lock.unlock()

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


def socket_address(lock_file: Path) -> str:
    """Beside the lock; where that path is too long for a socket, a name of its own in the temporary folder."""
    import hashlib
    import tempfile

    beside = str(lock_file.with_suffix(".socket"))
    if len(beside.encode(errors="surrogateescape")) <= _MAX_SOCKET_PATH_BYTES:
        return beside
    digest = hashlib.sha256(beside.encode(errors="surrogateescape")).hexdigest()[:24]
    return str(Path(tempfile.gettempdir()) / f"ragdoll-{digest}")
