"""Tests for app.models.late_writes."""

from __future__ import annotations

import pytest

from app.chats.errors import ChatsHeld
from app.models import late_writes
from app.models.late_writes import LateWrites
from engine.protocol import RagdollError


class Disk:
    """Takes values, unless it is full."""

    def __init__(self) -> None:
        self.is_full, self.taken = False, list[object]()

    def put(self, writes: LateWrites, chat: str, kind: str, value: object) -> bool:
        return writes.put(chat, kind, value, lambda: self.write(value))

    def write(self, value: object) -> None:
        if self.is_full:
            raise RagdollError("The disk is full.", "Free some space.")
        self.taken.append(value)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def writes(qapp) -> LateWrites:
    return LateWrites()


def test_what_is_taken_at_once_waits_nowhere(writes: LateWrites, disk: Disk):
    assert disk.put(writes, "a", "model", "m.gguf")
    assert (writes.problem, writes.newest("a", "model", "stored")) == (None, "stored")


def test_the_newest_of_what_was_refused_counts_and_is_written_when_there_is_room(writes: LateWrites, disk: Disk, qtbot):
    told: list[str] = []
    writes.failed.connect(lambda sentence, _: told.append(sentence))
    disk.is_full = True
    for value in ("first", "second"):
        assert not disk.put(writes, "a", "model", value)
    disk.put(writes, "a", "manner", "in verse")
    assert writes.newest("a", "model", "stored") == "second"
    assert writes.newest("b", "model", "stored") == "stored"
    writes.write()
    assert str(writes.problem) == "The disk is full. Free some space."
    assert (told, disk.taken) == (["The disk is full."] * 3, [])
    disk.is_full = False
    writes.write()
    assert disk.taken == ["second", "in verse"]
    assert writes.problem is None


def test_it_is_tried_again_by_itself(disk: Disk, qtbot, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(late_writes, "AGAIN_MS", 10)
    writes = LateWrites()
    disk.is_full = True
    disk.put(writes, "a", "model", "m.gguf")
    disk.is_full = False
    qtbot.wait_until(lambda: disk.taken == ["m.gguf"])


def test_what_is_chosen_after_a_refusal_takes_its_place(writes: LateWrites, disk: Disk):
    disk.is_full = True
    disk.put(writes, "a", "model", "first")
    disk.is_full = False
    assert disk.put(writes, "a", "model", "second")
    writes.write()
    assert disk.taken == ["second"]


def test_one_that_cannot_be_written_holds_up_no_other(writes: LateWrites, disk: Disk):
    def refused() -> None:
        raise RagdollError("A page is damaged.")

    disk.is_full = True
    writes.put("a", "model", "m.gguf", refused)
    disk.put(writes, "b", "model", "n.gguf")
    disk.is_full = False
    writes.write()
    assert disk.taken == ["n.gguf"]
    assert writes.newest("b", "model", "stored") == "stored"
    assert (writes.newest("a", "model", "stored"), str(writes.problem)) == ("m.gguf", "A page is damaged.")


def test_a_file_that_another_program_holds_is_waited_for_once(writes: LateWrites):
    tried: list[str] = []

    def held(name: str) -> None:
        tried.append(name)
        raise ChatsHeld("Another program holds it.")

    for name in ("a", "b"):
        writes.put(name, "model", name, lambda name=name: held(name))
    tried.clear()
    writes.write()
    assert tried == ["a"]
