"""The HTTP server: it runs while the settings want it, at one port, for this machine only."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections.abc import Callable

from engine.config import ServerSettings
from engine.engine import Engine
from engine.errors import RagdollError
from engine.protocol import ServerState

log = logging.getLogger(__name__)
HOST = "127.0.0.1"
# Retried, because the obstacle may disappear: another program ends, or a disk gets free space.
RETRY_S = 3.0
# How long answers in progress may take to notice that the server ends.
_END_S = 1.0
_KEY_BYTES = 24
_NOT_NOW = "Other applications cannot ask Ragdoll just now; it is tried again"


class PortTaken(RagdollError):
    """Another program listens at the port, or we have no permission."""


class Server:
    """Follows the settings: starts, moves and stops. Its owner closes it before the engine.

    If it cannot run as they want it, it retries until it can, or they want something else.
    `tell` is called with its state whenever that changes, on any thread.
    """

    def __init__(self, engine: Engine, tell: Callable[[ServerState], None] = lambda state: None) -> None:
        self._engine, self._tell = engine, tell
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._settings: ServerSettings | None = None
        self._state = ServerState()
        self._retry: threading.Timer | None = None
        self._is_closed = False

    @property
    def state(self) -> ServerState:
        return self._state

    def follow(self, settings: ServerSettings | None = None) -> ServerSettings:
        """Applies these settings, or those in force; if that fails, its state says why.

        Returns:
            The settings with the key, which may have been created.
        """
        with self._lock:
            return self._stand(settings)

    def _stand(self, wanted: ServerSettings | None) -> ServerSettings:
        settings, problem = self._with_key(wanted or self._engine.settings.server)
        if self._is_closed or (settings == self._settings and not self._state.problem):
            return settings
        self._settings, before = settings, self._state
        self._stop()
        self._state = ServerState(problem=problem) if problem else self._started(settings)
        # Under a lock, so that the state reported last is the newest.
        if self._state != before:
            self._tell(self._state)
        if self._state.problem:
            if self._state != before:
                log.warning("%s", self._state.problem)
            self._try_later(wanted)
        return settings

    def _try_later(self, wanted: ServerSettings | None) -> None:
        self._retry = threading.Timer(RETRY_S, self._try_again, (wanted,))
        self._retry.daemon = True
        self._retry.start()

    def _try_again(self, wanted: ServerSettings | None) -> None:
        """Retries on the thread of a timer; does nothing if a newer timer has replaced it."""
        with self._lock:
            if self._retry is threading.current_thread():
                self._stand(wanted)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._stop()
            self._state = ServerState()

    def _with_key(self, settings: ServerSettings) -> tuple[ServerSettings, str]:
        """The settings with a new key, if one is needed and missing; and why it cannot be saved, or ""."""
        if not (settings.enabled and settings.needs_key and not settings.key):
            return settings, ""
        key = secrets.token_urlsafe(_KEY_BYTES)
        try:
            self._engine.change_settings({"server.key": key})
        except RagdollError as error:
            return settings, str(error)
        return settings.model_copy(update={"key": key}), ""

    def _started(self, settings: ServerSettings) -> ServerState:
        """Starts the server if the settings want it, with the key where one is needed; returns its state."""
        if not settings.enabled:
            return ServerState()
        try:
            self._running = _Running(self._engine, settings, self._note_end)
        except RagdollError as error:
            return ServerState(problem=str(error))
        except (OSError, RuntimeError) as error:
            # The system limits the number of files and threads.
            return ServerState(problem=f"{_NOT_NOW} ({getattr(error, 'strerror', None) or error}).")
        return ServerState(address=self._running.address)

    def _note_end(self, running: _Running) -> None:
        """Restarts the server after a while, because its thread has ended unexpectedly."""
        with self._lock:
            if self._running is not running:
                return
            self._running = None
            self._state = ServerState(problem=f"{_NOT_NOW}.")
            self._tell(self._state)
            self._try_later(self._settings)

    def _stop(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._running is not None:
            self._running.stop()
            self._running = None


class _Running:
    """One server on a thread of its own."""

    def __init__(self, engine: Engine, settings: ServerSettings, on_end: Callable[[_Running], None]) -> None:
        """Listens from its creation; `on_end` is called if it ends by itself.

        Raises:
            PortTaken: It cannot listen there.
            OSError, RuntimeError: The system has no file or thread for it.
        """
        # Half a second and some megabytes, paid only if the API is on.
        import uvicorn

        from engine.api.service import Service

        listening = _listening(settings.port)
        self.address = f"http://{HOST}:{listening.getsockname()[1]}/v1"
        self._service = Service(engine, settings.key_needed)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._service.app(),
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=int(_END_S),
            )
        )
        self._on_end, self._is_stopped = on_end, False
        self._thread = threading.Thread(target=self._serve, args=(listening,), name="api", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            listening.close()
            raise

    def _serve(self, listening: socket.socket) -> None:
        try:
            self._server.run(sockets=[listening])
        except Exception:
            log.exception("the server of other applications has ended")
        finally:
            listening.close()
            if not self._is_stopped:
                self._on_end(self)

    def stop(self) -> None:
        self._is_stopped = True
        self._server.should_exit = True
        self._service.stop_all()
        self._thread.join(_END_S)
        # Clients that still receive an answer are disconnected then.
        self._server.force_exit = True
        self._thread.join(_END_S)


def _listening(port: int) -> socket.socket:
    """A socket at that port of this machine; 0 is any free one."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # A server that ended a moment ago does not block the port; on Windows this option would share it with others.
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise PortTaken(
            f"Other applications cannot ask Ragdoll at port {port}: {error.strerror or error}.",
            "Choose another port in the settings, or end the program that has this one.",
        ) from error
    return listening
