"""Remarks on the cells of an Excel sheet: comments, the talk of several people, and what text boxes and pictures say.

A conversation is stored twice: as such, and for old programs as a comment. Only the first is read.
"""

from __future__ import annotations

import re

from lxml import etree

from engine.library.parsers import graphics, remarks
from engine.library.parsers.archive import Package
from engine.library.parsers.elements import attribute, child, children, descendants, local

_ROW = re.compile(r"\$?[A-Za-z]{1,3}\$?(\d+)")


def of_sheet(package: Package, part: str, people: dict[str, str]) -> dict[int, list[str]]:
    """Returns the remarks on each row of a sheet, by row number; `people` are names by id."""
    found: dict[int, list[str]] = {}
    for cell, text in (*_conversations(package, part, people), *_comments(package, part)):
        place = _ROW.match(cell)
        if place and text:
            found.setdefault(int(place[1]), []).append(text)
    for row, text in _drawings(package, part):
        if text:
            found.setdefault(row, []).append(text)
    return found


def people_of(package: Package, main: str) -> dict[str, str]:
    """Returns the names of the workbook's commenters, by id."""
    parts = package.related(main, "person").values()
    found = (person for part in parts for person in children(package.xml(part), "person"))
    return {attribute(person, "id"): attribute(person, "displayName") for person in found}


def _conversations(package: Package, part: str, people: dict[str, str]) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []
    for name in package.related(part, "threadedComment").values():
        for one in children(package.xml(name), "threadedComment"):
            cell, who = attribute(one, "ref"), people.get(attribute(one, "personId"), "")
            said.append((cell, remarks.comment(who, _text(child(one, "text")), cell)))
    return said


def _comments(package: Package, part: str) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []
    for name in package.related(part, "comments").values():
        root = package.xml(name)
        authors = [author.text or "" for author in children(child(root, "authors"), "author")]
        for one in children(child(root, "commentList"), "comment"):
            number = attribute(one, "authorId")
            author = authors[int(number)] if number.isdigit() and int(number) < len(authors) else ""
            # Such an author marks the copy of a conversation, which has been read.
            if not author.startswith("tc="):
                cell = attribute(one, "ref")
                said.append((cell, remarks.comment(author, _text(child(one, "text")), cell)))
    return said


def _drawings(package: Package, part: str) -> list[tuple[int, str]]:
    """Returns descriptions and texts of drawings on the sheet, each with the row at which it begins."""
    return [
        (_row(anchor), graphics.flat(element) if local(element) == "txBody" else remarks.picture(element))
        for name in package.related(part, "drawing").values()
        for anchor in descendants(package.xml(name), "twoCellAnchor", "oneCellAnchor", "absoluteAnchor")
        for element in descendants(anchor, "cNvPr", "txBody")
        # A fallback only says that other programs show something here.
        if next(element.iterancestors("{*}Fallback"), None) is None
    ]


def _row(anchor: etree._Element) -> int:
    """Returns the row of an anchor, from 1; 1 if it has none."""
    row = child(anchor, "from", "row")
    said = (row.text or "") if row is not None else ""
    return int(said) + 1 if said.strip().isdigit() else 1


def _text(element: etree._Element | None) -> str:
    """Returns a text, in runs or not."""
    if element is None:
        return ""
    return (element.text or "") + "".join(part.text or "" for part in descendants(element, "t"))
