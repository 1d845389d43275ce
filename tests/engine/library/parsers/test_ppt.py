"""Tests for engine.library.parsers.ppt and ppt_records, on files that are written here record by record."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence

import pytest

from engine.errors import DocumentEncrypted, DocumentUnreadable
from engine.library.parsers import encrypted
from engine.library.parsers.limits import Limits, needs_password
from tests.helpers.compound import compound
from tests.helpers.parsing import said

DOCUMENT, SLIDE, NOTES = 0x03E8, 0x03EE, 0x03F0
TITLE, BODY, SPEAKER, OTHER = 0, 1, 2, 4
SLIDE_NUMBER_PLACE = 8


def atom(kind: int, data: bytes = b"", instance: int = 0) -> bytes:
    return struct.pack("<HHI", instance << 4, kind, len(data)) + data


def container(kind: int, *inside: bytes, instance: int = 0) -> bytes:
    data = b"".join(inside)
    return struct.pack("<HHI", instance << 4 | 0xF, kind, len(data)) + data


def text(kind: int, words: str) -> bytes:
    """A text with its kind before it, in one byte a character where that will do."""
    is_narrow = all(ord(sign) < 256 for sign in words)
    record = atom(0x0FA8, words.encode("latin-1")) if is_narrow else atom(0x0FA0, words.encode("utf-16-le"))
    return atom(0x0F9F, struct.pack("<I", kind)) + record


def in_outline(index: int) -> bytes:
    return atom(0x0F9E, struct.pack("<I", index))


def shape(*inside: bytes, place: int = 0, description: str = "") -> bytes:
    words = description.encode("utf-16-le")
    options = struct.pack("<HIHI", 0x0080, 5, 0xC381, len(words)) + words
    return container(
        0xF004,
        *([atom(0xF00B, options, 2)] if description else []),
        container(0xF011, atom(0x0BC3, struct.pack("<iBBH", 0, place, 0, 0))),
        container(0xF00D, *inside),
    )


def drawing(*shapes: bytes) -> bytes:
    return container(0x040C, container(0xF002, container(0xF003, container(0xF004), *shapes)))


def comment(author: str, words: str) -> bytes:
    strings = (atom(0x0FBA, said.encode("utf-16-le"), number) for number, said in enumerate((author, words)))
    return container(0x1388, container(0x138A, atom(0x138B, container(0x2EE0, *strings))))


def listed(instance: int, *entries: tuple[int, int, Sequence[bytes]]) -> bytes:
    """A list of slides or notes: which object each is, its own number, and its texts in the outline."""
    inside = (
        atom(0x03F3, struct.pack("<IIIII", object_number, 0, len(texts), own_number, 0)) + b"".join(texts)
        for object_number, own_number, texts in entries
    )
    return container(0x0FF0, *inside, instance=instance)


def show(*edits: dict[int, bytes], token: int = 0xE391C05F) -> bytes:
    """A file as it is after these edits, each of which writes some objects; the document is number 1."""
    main, last = b"", 0
    for written in edits:
        places = {}
        for number, record in written.items():
            places[number] = len(main)
            main += record
        runs = (struct.pack("<II", number | 1 << 20, place) for number, place in places.items())
        directory = len(main)
        main += atom(0x1772, b"".join(runs))
        edit = len(main)
        main += atom(0x0FF5, struct.pack("<IHBBIIIIHH", 0, 0, 0, 3, last, directory, 1, 9, 0, 0))
        last = edit
    current = atom(0x0FF6, struct.pack("<IIIHHBBH", 0x14, token, last, 0, 0x03F4, 3, 0, 0))
    return compound({"Current User": current, "PowerPoint Document": main})


def simple(slide: bytes, *outline: bytes) -> bytes:
    """A show of one slide."""
    return show({1: container(DOCUMENT, listed(0, (2, 256, outline))), 2: container(SLIDE, slide)})


def test_slides_are_pages_in_the_order_of_the_show_with_titles_texts_and_notes(parsed):
    document = container(
        DOCUMENT,
        listed(1, (7, 1, [text(TITLE, "Click to edit the master")])),
        listed(0, (3, 257, [text(TITLE, "Überblick"), text(BODY, "eins\rzwei")]), (2, 256, [])),
        listed(2, (4, 1, [])),
    )
    second = container(SLIDE, drawing(shape(text(OTHER, "In a box.\rOn two\x0blines.")), shape(text(TITLE, "北京"))))
    first = container(SLIDE, drawing(shape(in_outline(1)), shape(in_outline(0))))
    notes = container(
        NOTES, atom(0x03F1, struct.pack("<IHH", 257, 0, 0)), drawing(shape(text(SPEAKER, "Say it slowly.")))
    )
    read = parsed("a.ppt", show({1: document, 2: second, 3: first, 4: notes}))

    assert read.format == "ppt"
    assert [(page.number, page.place) for page in read.pages] == [(1, "slide 1"), (2, "slide 2")]
    assert said(read) == [
        ("heading", "Überblick"),
        ("list_item", "eins"),
        ("list_item", "zwei"),
        ("heading", "Notes"),
        ("paragraph", "Say it slowly."),
    ]
    assert said(read, 1) == [("heading", "北京"), ("paragraph", "In a box."), ("paragraph", "On two\nlines.")]


def test_what_the_master_puts_on_every_slide_is_left_out(parsed):
    slide = drawing(
        shape(text(OTHER, "17 May"), place=7), shape(text(OTHER, "*"), place=0), shape(text(OTHER, "Said here."))
    )
    assert said(parsed("a.ppt", simple(slide))) == [("paragraph", "Said here.")]


def test_text_in_groups_and_text_that_no_shape_refers_to_is_read_once(parsed):
    group = container(0xF003, container(0xF004), shape(text(OTHER, "In a group.")), shape(in_outline(0)))
    slide = container(0x040C, container(0xF002, container(0xF003, container(0xF004), group, shape(in_outline(0)))))
    assert said(parsed("a.ppt", simple(slide, text(BODY, "Referred to."), text(BODY, "Left over.")))) == [
        ("paragraph", "In a group."),
        ("paragraph", "Referred to."),
        ("paragraph", "Left over."),
    ]


def test_comments_and_words_for_pictures_are_read(parsed):
    slide = drawing(shape(description="A map of the lake"), shape(description="IMG_1.jpg")) + comment("Ada", "Which?")
    assert said(parsed("a.ppt", simple(slide))) == [
        ("paragraph", "Picture: A map of the lake"),
        ("heading", "Comments"),
        ("paragraph", "Comment by Ada: Which?"),
    ]


def test_of_a_file_that_was_saved_quickly_the_last_version_counts(parsed):
    before = container(SLIDE, drawing(shape(text(OTHER, "as it was"))))
    other = container(SLIDE, drawing(shape(text(OTHER, "untouched"))))
    after = container(SLIDE, drawing(shape(text(OTHER, "as it is"))))
    document = container(DOCUMENT, listed(0, (2, 256, []), (3, 257, [])))
    read = parsed("a.ppt", show({1: document, 2: before, 3: other}, {2: after, 1: document}))
    assert [page.text for page in read.pages] == ["as it is", "untouched"]


def test_a_slide_that_is_lost_keeps_its_number_and_its_outline(parsed):
    document = container(DOCUMENT, listed(0, (2, 256, [text(TITLE, "Lost")]), (3, 257, [])))
    slide = container(SLIDE, drawing(shape(text(OTHER, "There."))))
    read = parsed("a.ppt", show({1: document, 3: slide}))
    assert [page.text for page in read.pages] == ["Lost", "There."]


def test_one_with_a_password_is_opened_like_the_others(parsed, monkeypatch: pytest.MonkeyPatch):
    def refuse(path: object, limits: Limits) -> None:
        raise needs_password("The document", limits)

    monkeypatch.setattr(encrypted, "parse", refuse)
    with pytest.raises(DocumentEncrypted):
        parsed("a.ppt", show({1: container(DOCUMENT)}, token=0xF3D1C4DF))


def test_damage_is_called_so(parsed):
    good = simple(drawing(shape(text(OTHER, "Text."))))
    main = good.index(struct.pack("<HH", 0xF, DOCUMENT))
    for bad in (
        compound({"Current User": b"", "PowerPoint Document": b"\0" * 100}),
        compound({"PowerPoint Document": b"\0" * 100}),
        good[:main] + b"\xff" * 4 + good[main + 4 :],
    ):
        with pytest.raises(DocumentUnreadable, match="damaged"):
            parsed("a.ppt", bad)


def test_whatever_is_spoiled_it_is_read_or_refused_with_a_sentence(parsed):
    good = simple(drawing(shape(text(OTHER, "Text."), description="A lake")), text(TITLE, "Title"))
    start, end = 512, good.index("Text.".encode("latin-1")) + 600
    for at in range(start, min(end, len(good)), 3):
        spoiled = good[:at] + b"\xff\x7f" + good[at + 2 :]
        with contextlib.suppress(DocumentUnreadable):
            parsed("a.ppt", spoiled)
