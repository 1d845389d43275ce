"""Evidence as a model reads it: the text of a passage, cut if necessary, under the number that it is cited by."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePath

from engine.core import Passage
from engine.generation.chat_template import PromptPart

# Padding that keeps the spans of a joined passage right, up to two hundred spaces, which a model should not read.
_PADDING = re.compile(r" +\n\n")


@dataclass(frozen=True, slots=True)
class EvidencePassage:
    """A passage as the model reads it; `text` may be cut to fit. `title` is the file's name, never its folder.

    `number` is set where passages before it have left the library, and is the one that answers cite it by. `source` is
    what the user sees when it is cited, None in turns of older versions.
    """

    document_id: int
    title: str
    page: int | None
    text: str
    number: int | None = None
    source: Passage | None = field(default=None, compare=False)

    @classmethod
    def of(cls, passage: Passage) -> EvidencePassage:
        name = PurePath(passage.document).name
        return cls(passage.document_id, name, passage.page, _PADDING.sub("\n\n", passage.text), source=passage)

    @property
    def is_cut(self) -> bool:
        """Whether the model reads only its beginning."""
        return self.source is not None and self.text != EvidencePassage.of(self.source).text

    def is_part_of(self, other: EvidencePassage) -> bool:
        """Returns whether reading the other includes reading this one."""
        is_same_place = (self.document_id, self.title, self.page) == (other.document_id, other.title, other.page)
        return is_same_place and self.text in other.text

    def block(self, number: int) -> PromptPart:
        """Returns its text in the prompt, under its own number, or under `number` if it has none."""
        number = self.number or number
        where = self.title if self.page is None else f"{self.title}, page {self.page}"
        text = f"[{number}] {where}\n{self.text}\n\n"
        return PromptPart(text, kind="passage", documents=frozenset((self.document_id,)), stands_alone=True)
