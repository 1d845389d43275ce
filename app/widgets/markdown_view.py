"""A streaming Markdown answer: one widget per block, only the tail rendered again, tokens collected for 50 ms."""

from __future__ import annotations

import time

from PySide6.QtCore import QPoint, QTimer, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.answer_text import AnswerText
from app.widgets.block_selection import BlockSelection
from app.widgets.code_block import CodeBlock
from app.widgets.markdown_blocks import Block, MarkdownStream
from app.widgets.prose import Prose

COALESCE_MS = 50


class MarkdownView(QWidget):
    """`append` while it streams, `finish` (or `show_text`) to see all of it at once.

    `selection` is what is selected in any of the blocks. `num_renders` counts block widgets made or re-rendered; tests
    check with it that only the tail is rendered.
    """

    citation_clicked = Signal(int)  # the number as the reader sees it, 1-based
    citation_hovered = Signal(int, QPoint)
    grew = Signal()  # other blocks are shown, usually more

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._stream = MarkdownStream()
        self._pending: list[str] = []
        self._views: list[Prose | CodeBlock] = []
        self._shown: list[Block] = []
        self.selection = BlockSelection(self, self.texts)
        self.num_renders = 0
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(12)
        self._timer = QTimer(self, singleShot=True, interval=COALESCE_MS)
        self._timer.timeout.connect(self._flush)

    def set_num_passages(self, num_passages: int) -> None:
        """Sets how many passages further text may cite; before, a citation may have any number."""
        self._stream.num_passages = num_passages

    @property
    def text(self) -> str:
        """Returns all Markdown so far, shown or not yet."""
        return self._stream.text + "".join(self._pending)

    def append(self, piece: str) -> None:
        """Adds a piece, which is shown within 50 ms."""
        self._pending.append(piece)
        if not self._timer.isActive():
            self._timer.start()

    def show_text(self, text: str) -> None:
        """Shows `text` as a whole at once; unchanged blocks stay."""
        self._timer.stop()
        self._pending.clear()
        self._show_from(self._stream.replace(text))

    def finish(self) -> None:
        """Shows pending text at once."""
        self._timer.stop()
        self._flush()

    def block_views(self) -> tuple[Prose | CodeBlock, ...]:
        return tuple(self._views)

    def texts(self) -> tuple[AnswerText, ...]:
        """Returns the text widget of each block, in order."""
        return tuple(view.text if isinstance(view, CodeBlock) else view for view in self._views)

    def _flush(self) -> None:
        if self._pending:
            began, piece = time.monotonic(), "".join(self._pending)
            self._pending.clear()
            self._show_from(self._stream.append(piece))
            # A long fence or list is one block and is rendered again each time: for at most a fifth of the time.
            self._timer.setInterval(max(COALESCE_MS, round(4000 * (time.monotonic() - began))))

    def _show_from(self, first: int) -> None:
        blocks = self._stream.blocks
        for index in range(first, len(blocks)):
            self._show_block(index, blocks[index])
        self._drop_views(len(blocks))
        self.grew.emit()

    def _show_block(self, index: int, block: Block) -> None:
        if index < len(self._shown) and self._shown[index] == block:
            return
        self.num_renders += 1
        if index < len(self._shown) and self._shown[index].kind == block.kind:
            self._update_view(self._views[index], block)
            self._shown[index] = block
            return
        self._drop_views(index)
        self._views.append(self._new_view(block))
        self._shown.append(block)
        self._layout.addWidget(self._views[-1])

    def _update_view(self, view: Prose | CodeBlock, block: Block) -> None:
        if isinstance(view, CodeBlock):
            view.show_code(block.content, block.language)
        else:
            view.show_html(block.content)

    def _new_view(self, block: Block) -> Prose | CodeBlock:
        if block.kind == "code":
            code = CodeBlock(block.content, block.language, self)
            code.text.join(self.selection)
            return code
        prose = Prose(block.content, self)
        prose.join(self.selection)
        prose.citation_clicked.connect(self.citation_clicked)
        prose.citation_hovered.connect(self.citation_hovered)
        return prose

    def _drop_views(self, keep: int) -> None:
        self.selection.drop(self.texts()[keep:])
        bits.drop(self._layout, self._views[keep:])
        del self._views[keep:], self._shown[keep:]
