"""Tests for app.models.listing: all files are listed once, whatever moves meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from app.models.listing import list_files
from engine import protocol
from engine.protocol import Document
from engine.wire import WireError
from tests.helpers.fake_engine_client import FakeEngineClient


def document(number: int) -> Document:
    return Document(number, ("Contracts",), f"/docs/{number}.pdf", "indexed", "", 1, 1, "hash", "pdf", 3)


def documents(*numbers: int, total: int = 0) -> protocol.DocumentsReply:
    return protocol.DocumentsReply(
        documents=tuple(map(document, numbers)), total=total or len(numbers), by_state={"indexed": len(numbers)}
    )


class Asker:
    """Wants the files of collections until it does not any more; what it was told."""

    def __init__(self, client: FakeEngineClient, *collections: str) -> None:
        self.is_wanted = True
        self.listed: list[Mapping[int, str]] = []
        self.failed: list[WireError] = []
        list_files(client, collections, lambda: self.is_wanted, self.listed.append, self.failed.append)  # type: ignore[arg-type]

    @property
    def numbers(self) -> list[int]:
        """Of all files, in the order in which they were told."""
        [listed] = self.listed
        return list(listed)


@pytest.fixture
def asker(client: FakeEngineClient) -> Asker:
    return Asker(client)


def test_files_are_listed_page_by_page(client: FakeEngineClient) -> None:
    asker = Asker(client, "Contracts")
    client.answer(protocol.DOCUMENTS, documents(1, 2, total=3))
    assert not asker.listed
    client.answer(protocol.DOCUMENTS, documents(3, total=3))
    assert asker.listed == [{1: "/docs/1.pdf", 2: "/docs/2.pdf", 3: "/docs/3.pdf"}]
    asked = client.asked(protocol.DOCUMENTS)
    assert [(one.collection, one.offset) for one in asked] == [("Contracts", 0), ("Contracts", 2)]


def test_files_of_several_collections_are_listed_one_after_the_other_and_once(client: FakeEngineClient) -> None:
    asker = Asker(client, "Contracts", "Invoices", "Letters")
    client.answer(protocol.DOCUMENTS, documents(1, 2, total=3))
    client.answer(protocol.DOCUMENTS, documents(3, total=3))
    client.answer(protocol.DOCUMENTS, documents())
    client.answer(protocol.DOCUMENTS, documents(2, 4))
    assert asker.numbers == [1, 2, 3, 4]
    asked = client.asked(protocol.DOCUMENTS)
    wanted = [("Contracts", 0), ("Contracts", 2), ("Invoices", 0), ("Letters", 0)]
    assert [(one.collection, one.offset) for one in asked] == wanted


def test_one_of_several_collections_that_is_gone_is_told(client: FakeEngineClient) -> None:
    asker = Asker(client, "Contracts", "Invoices")
    client.answer(protocol.DOCUMENTS, documents(1))
    client.refuse(protocol.DOCUMENTS, "No collection is called so.")
    assert ([error.sentence for error in asker.failed], asker.listed) == (["No collection is called so."], [])


def test_files_that_move_while_they_are_listed_are_told_once(client: FakeEngineClient, asker: Asker) -> None:
    client.answer(protocol.DOCUMENTS, documents(1, 2, total=4))
    client.answer(protocol.DOCUMENTS, documents(2, 3, total=4))
    assert asker.numbers == [1, 2, 3]


def test_files_that_slip_by_while_others_leave_the_list_are_told_all_the_same(
    client: FakeEngineClient, asker: Asker
) -> None:
    client.answer(protocol.DOCUMENTS, documents(1, 2, total=5))
    # The first has left: the third moved before the offset.
    client.answer(protocol.DOCUMENTS, documents(4, 5, total=4))
    client.answer(protocol.DOCUMENTS, documents(2, 3, total=4))
    client.answer(protocol.DOCUMENTS, documents(4, 5, total=4))
    assert asker.numbers == [1, 2, 4, 5, 3]


def test_a_list_that_never_rests_is_taken_as_it_is(client: FakeEngineClient, asker: Asker) -> None:
    for total in (4, 3, 4, 3, 4, 3, 4, 3):
        assert not asker.listed
        client.answer(protocol.DOCUMENTS, documents(1, 2, total=total))
    assert asker.numbers == [1, 2]


def test_a_file_that_was_never_read_is_left_out(client: FakeEngineClient, asker: Asker) -> None:
    unread = replace(document(1), state="offline", num_chunks=0)
    reply = protocol.DocumentsReply(documents=(unread, document(2)), total=2, by_state={})
    client.answer(protocol.DOCUMENTS, reply)
    assert asker.numbers == [2]
    assert set(client.asked(protocol.DOCUMENTS)[-1].states) == {"indexed", "offline", "pending"}


def test_who_does_not_want_the_files_any_more_hears_nothing(client: FakeEngineClient) -> None:
    askers = [Asker(client) for _ in range(2)]
    for asker in askers:
        asker.is_wanted = False
    client.answer(protocol.DOCUMENTS, documents(1))
    client.refuse(protocol.DOCUMENTS, "No collection is called so.")
    assert [(asker.listed, asker.failed) for asker in askers] == [([], []), ([], [])]


def test_why_files_cannot_be_had_is_told(client: FakeEngineClient, asker: Asker) -> None:
    client.refuse(protocol.DOCUMENTS, "No collection is called so.")
    assert [error.sentence for error in asker.failed] == ["No collection is called so."]
