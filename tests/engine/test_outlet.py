"""Tests for engine.outlet."""

from __future__ import annotations

import os
import threading

from engine import protocol, wire
from engine.outlet import MAX_WAITING_LINES, Outlet


class Gate:
    """A pipe that takes nothing until it is opened."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.open, self.blocked = threading.Event(), threading.Event()

    def write(self, data: memoryview) -> int:
        self.blocked.set()
        self.open.wait(30)
        self.lines.append(bytes(data))
        return len(data)


def waiting_outlet() -> tuple[Gate, Outlet]:
    gate = Gate()
    outlet = Outlet(gate)  # type: ignore[arg-type]
    outlet.notify(protocol.Phase(phase="first"))
    gate.blocked.wait(30)
    return gate, outlet


def progress(done: int) -> protocol.IndexProgress:
    return protocol.IndexProgress(documents_done=done, documents_total=9, chunks_done=0)


def test_of_coalescing_notices_only_the_newest_is_sent():
    gate, outlet = waiting_outlet()
    for done in range(5):
        outlet.notify(progress(done))
    gate.open.set()
    outlet.close()
    assert [wire.decode_message(line) for line in gate.lines[1:]] == [progress(4)]


def test_tokens_are_never_dropped_and_keep_their_order():
    gate, outlet = waiting_outlet()
    for number in range(100):
        outlet.notify(protocol.AnswerTokens(question_id="q", text=str(number)))
        outlet.notify(progress(number))
    gate.open.set()
    outlet.close()
    texts = [wire.decode_message(line) for line in gate.lines]
    assert [m.text for m in texts if isinstance(m, protocol.AnswerTokens)] == [str(n) for n in range(100)]


def test_a_full_queue_makes_the_sender_wait():
    gate, outlet = waiting_outlet()
    for _ in range(MAX_WAITING_LINES):
        outlet.send(b"x\n")
    sender = threading.Thread(target=outlet.send, args=(b"last\n",))
    sender.start()
    assert sender.is_alive()
    gate.open.set()
    sender.join(30)
    outlet.close(30)
    assert gate.lines[-1] == b"last\n"


def test_a_window_that_has_gone_is_no_error():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb", buffering=0) as stream:
        outlet = Outlet(stream)
        for _ in range(100):
            outlet.send(b"x\n")
        outlet.close()


def test_a_guest_that_does_not_read_is_left_and_nobody_waits_for_it():
    gate, has_left = Gate(), threading.Event()
    outlet = Outlet(gate, leave=has_left.set)  # type: ignore[arg-type]
    for _ in range(MAX_WAITING_LINES + 2):
        outlet.send(b"x\n")
    assert has_left.is_set()
    outlet.send(b"more\n")
    gate.open.set()
    outlet.close(30)
    assert len(gate.lines) <= 1
