"""Listing the files that a question is put to, page by page, while others are still being read.

Whatever leaves the list moves those behind it to before the offset: where the count has changed meanwhile, some may
have slipped by, and it is listed again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine import protocol


@dataclass(frozen=True, slots=True)
class Listing:
    """How far they are listed. `total` is what the first page counted, `is_steady` whether the others did too."""

    question: str
    collection: str | None
    offset: int = 0
    total: int | None = None
    is_steady: bool = True
    num_tries: int = 3

    def further(self, reply: protocol.DocumentsReply) -> Listing | None:
        """What to ask for after this page; None where that is all."""
        total = reply.total if self.total is None else self.total
        is_steady = self.is_steady and reply.total == total
        offset = self.offset + len(reply.documents)
        if reply.documents and offset < reply.total:
            return replace(self, offset=offset, total=total, is_steady=is_steady)
        if is_steady or not self.num_tries:
            return None
        return Listing(self.question, self.collection, num_tries=self.num_tries - 1)
