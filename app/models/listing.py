"""Listing the files that a question is put to, page by page, while others are still being read.

A document that leaves the list moves later ones to before the offset: if the count has changed in the meantime, some
may have been missed, and the list is requested again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine import protocol
from engine.protocol import DocumentState
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient

_PAGE_ROWS = 500
# Documents that are being re-indexed still have their earlier index.
_CAN_ANSWER: tuple[DocumentState, ...] = ("indexed", "offline", "pending")


@dataclass(frozen=True, slots=True)
class Listing:
    """How far the list is. `total` is the count of the first page, `is_steady` whether later pages had the same."""

    collection: str | None
    offset: int = 0
    total: int | None = None
    is_steady: bool = True
    num_tries: int = 3

    def further(self, reply: protocol.DocumentsReply) -> Listing | None:
        """Returns the request after this page; None if it was the last one."""
        total = reply.total if self.total is None else self.total
        is_steady = self.is_steady and reply.total == total
        offset = self.offset + len(reply.documents)
        if reply.documents and offset < reply.total:
            return replace(self, offset=offset, total=total, is_steady=is_steady)
        if is_steady or not self.num_tries:
            return None
        return Listing(self.collection, num_tries=self.num_tries - 1)


def list_files(
    client: EngineClient,
    collections: Sequence[str],
    is_wanted: Callable[[], bool],
    on_listed: Callable[[Mapping[int, str]], object],
    on_failed: Callable[[WireError], object],
) -> None:
    """Lists the files of collections that have been indexed, page by page; reports their ids and paths.

    Args:
        client: Sends the requests.
        collections: None of them means all. A file that is in two of them is listed once.
        is_wanted: Once it says no, neither callback is called any more.
        on_listed: Gets all files.
        on_failed: Gets the reason why they could not be listed.
    """
    listed: dict[int, str] = {}
    waiting = list[str | None](collections or (None,))

    def ask(listing: Listing) -> None:
        wanted = protocol.ListDocuments(
            collection=listing.collection, states=_CAN_ANSWER, offset=listing.offset, limit=_PAGE_ROWS
        )
        client.request(protocol.DOCUMENTS, wanted, lambda reply: take(listing, reply), fail)

    def take(listing: Listing, reply: protocol.DocumentsReply) -> None:
        if not is_wanted():
            return
        # A document that was never indexed has no answer to give.
        listed.update((one.document_id, one.path) for one in reply.documents if one.num_chunks)
        if (further := listing.further(reply)) is not None:
            ask(further)
        elif waiting:
            ask(Listing(waiting.pop(0)))
        else:
            on_listed(listed)

    def fail(error: WireError) -> None:
        if is_wanted():
            on_failed(error)

    ask(Listing(waiting.pop(0)))
