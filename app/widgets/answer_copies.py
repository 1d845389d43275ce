"""An answer for the clipboard: with the passages it cites, or without Markdown's marks.

The model's thoughts are not part of the answer, and are never copied.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QMimeData

from app.models.file_names import told_apart
from app.printable import printable
from app.widgets.figures import spot_text
from app.widgets.markdown_blocks import CITE_SCHEME, Block, blocks_of
from app.widgets.markdown_plain import cited_numbers, plain_of

if TYPE_CHECKING:
    from app.models.turns import TurnView

_CHIP = re.compile(rf'<a class="cite" href="{CITE_SCHEME}:(\d+)">.*?</a>')
# Mail programs do not have our style sheet.
_TABLE = '<table border="1" cellspacing="0" cellpadding="6">'


def source_lines(turn: TurnView) -> list[str]:
    """Returns `[3] lease.pdf, p. 7` for each passage that the answer cites, with its number in the answer."""
    cited = {number: turn.passages[number - 1] for number in cited_numbers(turn.text, len(turn.passages))}
    paths = {passage.document for passage in cited.values()}
    lines = []
    for number, passage in cited.items():
        name = printable(told_apart(passage.document, paths))
        place = ", ".join(part for part in (name, spot_text(passage.place, passage.page)) if part)
        lines.append(f"[{number}] {' '.join(place.split())}")
    return lines


def with_sources(turn: TurnView) -> QMimeData:
    """Returns the answer and its sources as Markdown, and as HTML for programs that show it, such as mail programs."""
    title, lines = QCoreApplication.translate("answer_copies", "Sources"), source_lines(turn)
    made = QMimeData()
    made.setText("\n\n".join((turn.text.strip(), "\n".join((f"{title}:", *lines)))))
    blocks = "\n".join(map(_html, blocks_of(turn.text.strip(), len(turn.passages))))
    listed = "<br>\n".join(map(escape, lines))
    made.setHtml(f"{blocks}\n<p><b>{escape(title)}</b><br>\n{listed}</p>")
    return made


def plain_text(turn: TurnView) -> str:
    return plain_of(turn.text, len(turn.passages))


def _html(block: Block) -> str:
    if block.kind == "code":
        return f"<pre><code>{escape(block.content)}</code></pre>"
    return _CHIP.sub(r"[\1]", block.content).replace("<table>", _TABLE)
