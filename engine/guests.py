"""Guests: other processes of this user that use the window's engine, each in a session until it leaves.

A command of the command line is one. It receives the events of its own questions and of the library; once it leaves,
its questions are cancelled.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import BinaryIO, cast

from engine import __version__
from engine.door import Door, hang_up
from engine.engine import Engine
from engine.outlet import Outlet
from engine.protocol import PROTOCOL_VERSION, Ready
from engine.session import Desk, Session

log = logging.getLogger(__name__)


@contextmanager
def listening(desk: Desk, engine: Engine) -> Iterator[None]:
    """Lets guests in during the block; `desk` carries out their requests to `engine`."""
    try:
        door = Door(engine.home, partial(_attend, desk, engine))
    except OSError as error:
        log.warning("commands cannot be heard: %s", error)
        yield
    else:
        with closing(door):
            yield


def _attend(desk: Desk, engine: Engine, connection: socket.socket) -> None:
    """Serves a guest until it leaves or is disconnected."""
    with connection.makefile("rb") as asked, connection.makefile("wb", buffering=0) as told:
        # A socket file lacks methods that are not used here, such as truncate.
        outlet = Outlet(cast("BinaryIO", told), leave=partial(hang_up, connection))
        outlet.notify(Ready(protocol_version=PROTOCOL_VERSION, pid=os.getpid(), engine_version=__version__))
        session = Session(outlet, desk, is_guest=True)
        unsubscribe = engine.subscribe(session.publish)
        try:
            session.serve(asked)
        except OSError as error:
            log.info("a guest is gone: %s", error)
        finally:
            unsubscribe()
            session.leave()
            hang_up(connection)
            outlet.close()
