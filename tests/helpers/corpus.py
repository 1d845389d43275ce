"""A small library of our own in six formats, with questions and where their answers stand: a clone needs no other."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.documents import Heading, Item, Table, write_docx
from tests.helpers.pdf import Line, Page, pdf


@dataclass(frozen=True, slots=True)
class CorpusQuestion:
    """A question, the file (and page) that answers it, and words that only the answering passage has."""

    text: str
    file: Path
    page: int | None
    phrase: str


@dataclass(frozen=True, slots=True)
class Corpus:
    folder: Path
    files: tuple[Path, ...]
    questions: tuple[CorpusQuestion, ...]


def write_corpus(folder: Path) -> Corpus:
    """Writes the files into the folder, which is made if need be; none of them may be skipped or fail."""
    folder.mkdir(parents=True, exist_ok=True)
    book = folder / "Threads and Ownership.pdf"
    book.write_bytes(pdf([_chapter(title, text) for title, text in _CHAPTERS], title="Threads and Ownership"))
    lease = write_docx(folder / "Lease Agreement.docx", *_LEASE)
    garden = folder / "Kitchen Garden.md"
    garden.write_text(_GARDEN, encoding="utf-8")
    museum = folder / "Harbour Museum.html"
    museum.write_text(_MUSEUM, encoding="utf-8")
    diary = folder / "Expedition Diary.txt"
    diary.write_text(_DIARY, encoding="utf-8")
    library = folder / "图书馆指南.txt"
    library.write_text(_LIBRARY, encoding="utf-8")
    return Corpus(
        folder,
        (book, lease, garden, museum, diary, library),
        (
            CorpusQuestion("How do I share state between threads?", book, 3, "wrap the value in a mutex"),
            CorpusQuestion("What happens when a value goes out of scope?", book, 1, "goes out of scope"),
            CorpusQuestion("How do threads send messages to each other?", book, 2, "sending half"),
            CorpusQuestion("How high is the security deposit of the flat?", lease, None, "2,400 euros"),
            CorpusQuestion("May tenants keep a dog?", lease, None, "written consent"),
            CorpusQuestion("When should garlic be planted?", garden, None, "October"),
            CorpusQuestion("Which day is the museum closed?", museum, None, "closed on Mondays"),
            CorpusQuestion("Why did the expedition turn back at the glacier?", diary, None, "crevasse"),
            CorpusQuestion("图书馆星期天几点开门？", library, None, "星期天上午十点开门"),
        ),
    )


def _chapter(title: str, text: str) -> Page:
    lines = [Line(title, size=20)]
    for paragraph in text.strip().split("\n\n"):
        wrapped = textwrap.wrap(" ".join(paragraph.split()), width=80)
        lines += [Line(line, gap=26 if index == 0 else None) for index, line in enumerate(wrapped)]
    return Page(lines)


_CHAPTERS = (
    (
        "Ownership and Borrowing",
        """
        Every value has exactly one owner, the variable that holds it. When the owner goes out of scope, the value is
        dropped and its memory is returned at once, without a garbage collector that looks for it later.

        A function that only needs to look at a value borrows it. Any number of readers may borrow a value at the same
        time, or a single writer, but never both. The compiler checks this rule before the program runs, so that a
        reference can never outlive the value it points to.
        """,
    ),
    (
        "Message Passing",
        """
        One way for threads to work together is to send each other messages. A channel has a sending half and a
        receiving half. A value that was put into the sending half belongs to the receiver from then on, and the sender
        can no longer touch it.

        Several producers may hold a copy of the sending half, while there is only one consumer. When the last sender
        is dropped, the receiver learns that nothing more will come, and its loop ends.
        """,
    ),
    (
        "Shared-State Concurrency",
        """
        Messages are not the only way. To share state between threads, wrap the value in a mutex and hand every thread
        a counted reference to it. A thread must acquire the lock before it may read or change the data, and the lock
        is released when the guard is dropped.

        A mutex protects data from being changed by two threads at once, but not from deadlock: two threads that each
        hold one lock and wait for the other will wait for ever. Always take locks in the same order.
        """,
    ),
    (
        "Errors and Recovery",
        """
        A function that can fail returns a result, which is either the value or an error. The caller has to look at it
        before the value can be used, so no failure is overlooked by accident.

        Errors from which no recovery is possible, such as an index beyond the end of an array, stop the program with a
        message and a trace of the calls that led there.
        """,
    ),
)

_LEASE = (
    Heading("Lease Agreement", 0),
    "This agreement is made between the owner of the house at 14 Harbour Street and the tenant named below.",
    Heading("Rent and Deposit"),
    "The monthly rent is 1,200 euros and is due on the third working day of each month.",
    "The security deposit of the flat is 2,400 euros. It is returned within six weeks after the tenant has moved out, "
    "less the cost of repairs beyond ordinary wear.",
    Table((("Item", "Amount", "Due"), ("Rent", "1,200 euros", "monthly"), ("Heating", "95 euros", "monthly"))),
    Heading("Notice"),
    "Either side may end the lease with three months' notice in writing, counted from the first day of a month.",
    Heading("House Rules"),
    Item("Tenants may keep a dog or a cat only with the written consent of the owner."),
    Item("Quiet hours last from ten in the evening until six in the morning."),
    Item("Bicycles are kept in the cellar, never in the stairway."),
)

_GARDEN = """# Kitchen Garden

Notes from five seasons on heavy soil.

## Garlic

Plant garlic cloves in October, a hand's breadth apart, before the ground freezes. It is
ready in July, when the lower leaves have turned yellow.

## Tomatoes

Tomatoes are started indoors in March and set out after the last frost. They want:

- a place in full sun
- a stake taller than yourself
- water at the root, never on the leaves

## Compost

| Layer   | What goes in              |
|---------|---------------------------|
| Brown   | straw, dry leaves, paper  |
| Green   | grass, peelings, coffee   |

Turn the heap every fortnight. Finished compost smells of forest floor.
"""

_MUSEUM = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Harbour Museum</title><style>body { color: navy }</style></head>
<body>
<nav><a href="/">Home</a> <a href="/tickets">Tickets</a></nav>
<main>
<h1>Harbour Museum</h1>
<p>The museum tells the story of the port from the first wooden pier to the container ships of today.</p>
<h2>Opening hours</h2>
<p>The museum is open from ten to six and closed on Mondays. On the first Thursday of a month it stays open
until nine.</p>
<h2>Admission</h2>
<table><tr><th>Visitor</th><th>Price</th></tr><tr><td>Adults</td><td>9 euros</td></tr>
<tr><td>Children under twelve</td><td>free</td></tr></table>
<h2>The lighthouse lens</h2>
<p>The largest exhibit is a first-order Fresnel lens of 1868, which guided ships past the northern reef for
ninety years.</p>
</main>
<footer>Imprint and privacy</footer>
<script>console.log("not for readers")</script>
</body></html>
"""

_DIARY = """Expedition Diary

12 March. We left the hut at four in the morning with six dogs and two sledges. The thermometer
showed minus thirty-one, and the snow squeaked under the runners.

13 March. A storm kept us in the tents all day. Anna repaired the stove with wire from a
broken ski binding; without her we would have had no water.

14 March. At the foot of the glacier the lead sledge broke through a snow bridge into a crevasse.
Nobody was hurt, but half of the fuel was lost, and so we turned back.

17 March. Home. The dogs slept for two days.
"""

_LIBRARY = """图书馆指南

欢迎来到城市图书馆。图书馆星期一至星期六上午九点开门，晚上八点关门。星期天上午十点开门，下午五点关门。

每位读者可以同时借阅十本书，借期为四个星期。如果没有其他读者预约，可以在网上续借两次。

二楼是儿童阅览室，三楼是安静的自习室，请不要在那里打电话。古籍收藏在地下一层，需要提前三天预约才能参观。
"""
