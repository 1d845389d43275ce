"""Tests for engine.library.parsers.main_text."""

from __future__ import annotations

from tests.helpers.parsing import said

STORY = "".join(
    f"<p>The okapi was seen once more on day {day}, eating leaves beside the river at dawn.</p>" for day in range(9)
)
MENU = (
    "<ul>"
    + "".join(f'<li><a href="/{name}">{name}</a></li>' for name in ("Home", "Shop", "About us", "Jobs"))
    + "</ul>"
)


def texts(document):
    return [text for _, text in said(document)]


def test_menus_are_told_by_their_links(parsed):
    page = texts(parsed("a.html", f"<body><div>{MENU}</div><div><h1>Okapis</h1>{STORY}</div></body>"))
    assert page[0] == "Okapis"
    assert len(page) == 10


def test_what_stands_beside_the_matter_is_told_by_its_name(parsed):
    around = (
        '<div class="cookieConsent">We use cookies.</div><div id="left-sidebar">News of us.</div><aside>An ad.</aside>'
    )
    page = texts(parsed("a.html", f"<body>{around}{STORY}</body>"))
    assert len(page) == 9
    assert all("okapi" in text for text in page)


def test_a_title_in_a_bar_stays_and_its_menu_goes(parsed):
    page = texts(parsed("a.html", f'<body><div class="banner"><h1>Okapis</h1>{MENU}</div>{STORY}</body>'))
    assert (page[0], len(page)) == ("Okapis", 10)


def test_a_page_of_links_is_kept_whole(parsed):
    links = "".join(f"<div><ul>{MENU}</ul></div><p>Group {group}</p>" for group in range(8))
    assert len(texts(parsed("a.html", f"<body>{links}</body>"))) == 8 * 5


def test_a_list_with_links_in_its_sentences_is_no_menu(parsed):
    items = "".join(
        f'<li>In the year {year} the <a href="/{year}">report</a> said that all was well.</li>' for year in range(9)
    )
    assert len(texts(parsed("a.html", f"<body>{STORY}<ul>{items}</ul></body>"))) == 18


def test_a_large_part_is_kept_whatever_it_is_called(parsed):
    assert len(texts(parsed("a.html", f'<body><div class="widget">{STORY}</div>{STORY}</body>'))) == 18


def test_a_small_page_is_left_alone(parsed):
    assert texts(parsed("a.html", f"<body>{MENU}<p>Hello.</p></body>")) == [
        "Home",
        "Shop",
        "About us",
        "Jobs",
        "Hello.",
    ]
