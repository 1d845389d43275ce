"""A library as an engine would tell it, through the fake client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from engine import protocol
from engine.protocol import Collection, Document, EmbedderState, Folder
from tests.helpers.fake_engine_client import FakeEngineClient


def tell_library(
    client: FakeEngineClient,
    *collections: Collection,
    documents: Sequence[Document] = (),
    folders: Sequence[Folder] = (),
    embedder: EmbedderState | None = None,
) -> None:
    """Lets everybody ask, and answers all who have asked about the library or its documents."""
    client.become_ready()
    answer_library(client, *collections, documents=documents, folders=folders, embedder=embedder)


def answer_library(
    client: FakeEngineClient,
    *collections: Collection,
    documents: Sequence[Document] = (),
    folders: Sequence[Folder] = (),
    embedder: EmbedderState | None = None,
    is_paused: bool = False,
) -> None:
    """Answers all who have asked; documents are filtered as the engine does it."""
    reply = protocol.LibraryReply(
        collections=collections,
        disk_bytes=4096,
        num_documents=sum(sum(collection.documents_by_state.values()) for collection in collections),
        folders=tuple(folders),
        embedder=embedder or EmbedderState(),
        is_paused=is_paused,
    )
    for request in list(client.open):
        if request.method is protocol.LIBRARY:
            client.answer(protocol.LIBRARY, reply)
        elif request.method is protocol.DOCUMENTS:
            client.answer(protocol.DOCUMENTS, documents_reply(request.params, documents))


def documents_reply(wanted: protocol.Message, documents: Sequence[Document]) -> protocol.DocumentsReply:
    """What an engine with these documents answers to a `ListDocuments`."""
    assert isinstance(wanted, protocol.ListDocuments)
    named = [
        document
        for document in documents
        if all(word in document.path.casefold() for word in wanted.name.casefold().split())
        and (wanted.document_ids is None or document.document_id in wanted.document_ids)
    ]
    found = [document for document in named if not wanted.states or document.state in wanted.states]
    return protocol.DocumentsReply(
        documents=tuple(found[wanted.offset : wanted.offset + wanted.limit]),
        total=len(found),
        by_state=dict(Counter(document.state for document in named)),
    )
