"""Tests for app.models.chat_tidying."""

from __future__ import annotations

import pytest

from app.chats.errors import ChatsUnusable
from app.models.chat_tidying import ChatTidying


class Steps:
    """A store that has so many steps to do, and a disk that may be full."""

    def __init__(self, num_steps: int, is_full: bool = False) -> None:
        self.num_left, self.is_full = num_steps, is_full

    def tidy_some(self) -> bool:
        if self.is_full:
            raise ChatsUnusable("The disk is full.")
        self.num_left -= 1
        return self.num_left > 0


def test_it_goes_on_until_nothing_is_left_to_do(qtbot):
    store = Steps(3)
    tidying = ChatTidying(store)
    qtbot.wait_until(lambda: not tidying.is_active)
    assert store.num_left == 0


@pytest.mark.expects_warnings
def test_a_full_disk_ends_it_until_the_next_start(qtbot):
    tidying = ChatTidying(Steps(3, is_full=True))
    qtbot.wait_until(lambda: not tidying.is_active)


def test_it_can_be_stopped_before_the_store_is_closed(qtbot):
    store = Steps(3)
    tidying = ChatTidying(store)
    tidying.stop()
    assert not tidying.is_active
    assert store.num_left == 3


def test_it_begins_again_once_there_is_more_to_do(qtbot):
    store = Steps(3)
    tidying = ChatTidying(store)
    qtbot.wait_until(lambda: not tidying.is_active)
    store.num_left = 2
    tidying.begin()
    qtbot.wait_until(lambda: not tidying.is_active)
    assert store.num_left == 0
