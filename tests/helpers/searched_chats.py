"""Chats that hold words, found by whoever can wait for the last step of the search."""

from __future__ import annotations

from app.chats import ChatStore, Conversation


def chats_with(store: ChatStore, query: str) -> tuple[Conversation, ...]:
    steps = store.finding(query)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return store.conversations(ended.value)
