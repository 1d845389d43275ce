"""The main text of a web page, without what the site puts around it: menus, bars, banners, cookie notices.

Such elements are recognised by the share of links in their text, and by their tag, class and id; if too little would
be left, nothing is removed. (trafilatura would bring a dozen packages for this.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lxml import etree, html

_BLOCKS = {
    "div",
    "section",
    "aside",
    "ul",
    "ol",
    "dl",
    "table",
    "form",
    "header",
    "footer",
    "center",
    "details",
    "span",
}
_NAMES = {
    "ad", "ads", "advert", "advertisement", "banner", "breadcrumb", "breadcrumbs", "cookie", "cookies", "consent",
    "footer", "masthead", "menu", "nav", "navbar", "navbox", "navigation", "newsletter", "pagination", "pager", "promo",
    "related", "share", "sharing", "sidebar", "skip", "social", "sponsor", "subscribe", "subscription", "toolbar",
    "widget", "popup", "modal", "cookiealert", "cookiebanner",
}  # fmt: skip
# Content may have these names as well ("share-price", "cookie-recipe"), so they count only without any other word.
_AMBIGUOUS = {"related", "share", "sharing", "social", "consent", "cookie", "cookies", "subscription", "widget"}
# These are removed whatever heading they have.
_INTRUSIVE = {
    "ad", "ads", "advert", "advertisement", "cookie", "cookies", "consent", "newsletter", "popup", "promo", "modal",
    "cookiealert", "cookiebanner",
}  # fmt: skip
# Together these words mean links for sharing this page.
_SHARED = ({"social", "share"}, {"social", "sharing"})
# Words for the form of such an element, or for the program that made it.
_FORMS = {
    "area", "articles", "bar", "block", "box", "button", "buttons", "container", "content", "icons", "inner", "items",
    "links", "list", "media", "message", "notice", "overlay", "posts", "section", "stories", "wrap", "wrapper", "text",
    "title", "large", "info", "policy", "law", "eu", "gdpr", "compliance", "signup", "login", "form", "embed", "sdk",
    "onetrust", "borlabs", "cmplz", "klaro", "cm", "mc",
}  # fmt: skip
_NAME_PARTS = re.compile(r"[A-Za-z][a-z]+|[A-Z]+(?![a-z])")
_NOT_A_LETTER = re.compile(r"[\W\d_]+")
_HEADINGS = {f"h{level}" for level in range(1, 7)}
_UNSEEN = {"script", "style", "noscript", "template", "head"}
# A menu has at least so many links, with this share of its text, and at most so many words each.
_MIN_LINKS = 4
_LINK_SHARE = 0.65
_MAX_WORDS_A_LINK = 6
# A section with a heading and a smaller share of links is content, whatever it is called.
_LINKED_SHARE = 0.25
# An element called a sidebar is none if it holds more of the page than this.
_MAX_NAMED_SHARE = 0.35
_MIN_KEPT_SHARE = 0.3
_SMALL_PAGE_WORDS = 60


@dataclass(slots=True)
class _Count:
    words: int = 0
    link_words: int = 0
    links: int = 0
    heading: html.HtmlElement | None = None


def strip(whole: html.HtmlElement) -> None:
    """Removes elements from the tree that are not part of the page's content."""
    counts = _counts(whole)
    total = counts[whole].words
    if total < _SMALL_PAGE_WORDS:
        return
    around = [*_outermost(whole, counts, total)]
    kept = total - sum(counts[element].words for element in around)
    if kept >= _MIN_KEPT_SHARE * total:
        _drop(around)


def _drop(elements: Sequence[html.HtmlElement]) -> None:
    """Removes elements from their tree but keeps the text after them; adjacent ones are removed together."""
    dropped = set(elements)
    for element in elements:
        parent, previous = element.getparent(), element.getprevious()
        if parent is None or (previous is not None and previous in dropped):
            continue
        row, following = [element], element.getnext()
        while following is not None and following in dropped:
            row.append(following)
            following = following.getnext()
        tail = "".join(one.tail or "" for one in row)
        if previous is not None:
            previous.tail = (previous.tail or "") + tail
        else:
            parent.text = (parent.text or "") + tail
        for one in row:
            parent.remove(one)


def _counts(whole: html.HtmlElement) -> dict[html.HtmlElement, _Count]:
    """Counts words, words in links, links, and finds the first heading, of each element, in one pass."""
    counts: dict[html.HtmlElement, _Count] = {}
    for _, element in etree.iterwalk(whole, events=("end",)):
        if not isinstance(element.tag, str) or element.tag in _UNSEEN:
            continue
        count = _Count(words=len((element.text or "").split()))
        for child in element:
            inner = counts.get(child)
            if inner is not None:
                count.words += inner.words
                count.link_words += inner.link_words
                count.links += inner.links
                count.heading = inner.heading if count.heading is None else count.heading
            count.words += len((child.tail or "").split())
        if element.tag == "a" and element.get("href"):
            count.link_words, count.links = count.words, 1
        if element.tag in _HEADINGS:
            count.heading = element
        counts[element] = count
    return counts


def _outermost(
    element: html.HtmlElement, counts: dict[html.HtmlElement, _Count], total: int
) -> Iterator[html.HtmlElement]:
    """Yields the elements around the content, none inside another."""
    waiting = [element]
    while waiting:
        for child in waiting.pop():
            count = counts.get(child)
            if count is None:
                continue
            is_around = child.tag in _BLOCKS and (_is_menu(count) or _is_named(child, count, total))
            # Some pages have their own title in a bar.
            if is_around and child.find(".//h1") is None:
                yield child
            else:
                waiting.append(child)


def _is_menu(count: _Count) -> bool:
    return (
        count.links >= _MIN_LINKS
        and count.link_words >= _LINK_SHARE * count.words
        and count.link_words <= _MAX_WORDS_A_LINK * count.links
    )


def _is_named(element: html.HtmlElement, count: _Count, total: int) -> bool:
    """Returns whether its tag, class or id says that it is not content, and it holds little of the page."""
    if count.words > _MAX_NAMED_SHARE * total:
        return False
    is_linked = count.link_words >= _LINKED_SHARE * count.words
    if element.tag == "aside" and count.links and is_linked:
        return True
    name = element.get("id") or ""
    named = [(token, False) for token in (element.get("class") or "").split()] + [(name, _is_slug(name, count.heading))]
    return any(_says_beside(token, is_slug, is_linked, count.heading is not None) for token, is_slug in named)


def _says_beside(token: str, is_slug: bool, is_linked: bool, has_heading: bool) -> bool:
    """Returns whether a class or an id says so; `is_slug`: the id repeats the heading."""
    parts = {part.lower() for part in _NAME_PARTS.findall(token)}
    names = parts & _NAMES
    is_all = parts <= _NAMES | _FORMS
    if not names or (is_slug and not (is_all and is_linked)):
        return False
    if is_linked or (is_all and (names & _INTRUSIVE or names in _SHARED)):
        return True
    return not has_heading and (is_all or bool(names - _AMBIGUOUS))


def _is_slug(name: str, heading: html.HtmlElement | None) -> bool:
    """Returns whether the id was made from the heading: from all of it, as pandoc, Sphinx and Quarto do, or a part.

    Digits are ignored.
    """
    letters = _letters(name)
    said = _letters(str(heading.text_content())) if heading is not None else ""
    return bool(letters) and (letters == said or (len(_NAME_PARTS.findall(name)) > 1 and letters in said))


def _letters(text: str) -> str:
    return _NOT_A_LETTER.sub("", text).casefold()
