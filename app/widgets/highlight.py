"""Code in colours: Pygments' tokens in the theme's four code colours, as HTML for one `<pre>`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.theme import Theme

# A longer block is shown plain, because highlighting it at every update would be noticeable.
MAX_HIGHLIGHTED_CHARS = 20_000


def highlight(code: str, language: str, theme: Theme) -> str:
    """Returns `code` as HTML for inside `<pre>`, which keeps white space; an unknown language gives plain text."""
    # Imported at the first code block, not at the first paint.
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    if not language or len(code) > MAX_HIGHLIGHTED_CHARS:
        return escape(code)
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(code)
    return "".join(_span(str(kind), text, theme) for kind, text in lexer.get_tokens(code))


def _span(kind: str, text: str, theme: Theme) -> str:
    colour = next((getattr(theme, field) for prefix, field in _COLOURS if kind.startswith(prefix)), "")
    return f'<span style="color:{colour}">{escape(text)}</span>' if colour else escape(text)


_COLOURS = (
    ("Token.Comment", "muted"),
    ("Token.Keyword.Type", "code_name"),
    ("Token.Keyword", "code_keyword"),
    ("Token.Operator.Word", "code_keyword"),
    ("Token.Literal.String", "code_string"),
    ("Token.Literal.Number", "code_number"),
    ("Token.Name.Function", "code_name"),
    ("Token.Name.Class", "code_name"),
    ("Token.Name.Decorator", "code_name"),
    ("Token.Name.Builtin", "code_name"),
    ("Token.Name.Tag", "code_keyword"),
    ("Token.Name.Attribute", "code_name"),
)
