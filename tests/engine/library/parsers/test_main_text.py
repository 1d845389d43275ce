"""Tests for engine.library.parsers.main_text."""

from __future__ import annotations

import pytest

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
        '<div class="cookieConsent">We use cookies.</div><div id="left-sidebar">News of us.</div>'
        '<aside class="ad">An ad.</aside>'
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


@pytest.mark.parametrize(
    "opening",
    [
        '<section id="related-work"><h2>2. Related work</h2>',
        '<section id="consent-to-participate"><h2>Consent to participate</h2>',
        '<section id="navigation"><h2>Navigation</h2>',
        '<section id="cookies"><h2>Cookies</h2>',
        '<section id="cookie-law"><h2>What the EU cookie law says</h2>',
        '<section id="consent-form"><h2>Appendix B: Consent form</h2>',
        '<section class="social-policy"><h2>The poor in the city</h2>',
        '<section class="share-price">',
        '<section id="subscription-fees">',
        '<section class="cookie-recipe">',
        '<section class="widget"><h3>How it is driven</h3>',
        '<section class="menu-item"><h3>Soups</h3>',
    ],
)
def test_a_section_is_no_bar_for_a_word_in_its_name(parsed, opening):
    page = texts(parsed("a.html", f"<body>{STORY}{opening}<p>The zebra stays.</p></section></body>"))
    assert page[-1] == "The zebra stays."


def test_a_section_named_by_its_heading_may_cite_much(parsed):
    cited = "".join(f'<p><a href="#{name}">{name} and others</a> saw zebras too.</p>' for name in ("Ann", "Bob", "Cid"))
    section = f'<section id="related-work"><h2>Related work</h2>{cited}</section>'
    assert texts(parsed("a.html", f"<body>{STORY}{section}</body>"))[-1] == "Cid and others saw zebras too."


def test_a_note_beside_the_text_is_read(parsed):
    page = texts(parsed("a.html", f'<body>{STORY}<aside class="note"><p>High voltage.</p></aside></body>'))
    assert page[-1] == "High voltage."


@pytest.mark.parametrize(
    "around",
    [
        '<div class="cookie-banner"><h2>We value your privacy</h2><p>We use cookies for all that we do.</p></div>',
        '<div class="cookie-notice"><p>We use cookies for all that we do.</p></div>',
        '<div id="onetrust-consent-sdk"><h2>We value your privacy</h2><p>We use cookies for all that we do.</p></div>',
        '<div role="alertdialog"><h2>We value your privacy</h2><p>We use cookies for all that we do.</p></div>',
        '<div id="cookie-law-info-bar"><span>We use cookies for all that we do.</span></div>',
        '<div id="BorlabsCookieBox"><h3>Privacy</h3><p>We use cookies for all that we do.</p></div>',
        '<div class="eu-cookie-compliance-banner"><h2>We use cookies for all that we do.</h2></div>',
        '<div class="alert cookiealert" role="alert">We use cookies for all that we do.</div>',
        '<div id="mc_embed_signup" class="newsletter-form"><h2>Subscribe</h2><p>The latest news every week.</p></div>',
        '<div class="newsletter-signup"><h3>Subscribe</h3><p>The latest news every week.</p></div>',
        '<div class="modal fade"><h4>Log in</h4><p>Please enter your name and password.</p></div>',
        '<div class="promo-box-large"><h3>Black Friday</h3><p>Save much on all that we sell.</p></div>',
        '<div class="social-share-bar"><h4>Share this</h4><span>Mail</span></div>',
        '<div class="newsletter-box"><h3>News</h3><p>Sign up for our weekly news.</p></div>',
        '<div class="share-buttons">Share this with your friends</div>',
        '<div class="social">Follow us</div>',
        '<section id="related-articles"><h2>Related articles</h2><p><a href="/1">The zebra was seen on a long and'
        " winding road to the sea again</a> today.</p></section>",
        '<aside><h3>More</h3><a href="/1">The zebra was seen on a long and winding road</a> today.</aside>',
    ],
)
def test_bars_boxes_and_lists_of_other_pages_go(parsed, around):
    page = texts(parsed("a.html", f"<body>{around}{STORY}</body>"))
    assert len(page) == 9
    assert all("okapi" in text for text in page)
