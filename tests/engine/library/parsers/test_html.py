"""Tests for engine.library.parsers.html."""

from __future__ import annotations

import pytest

from engine.errors import DocumentEmpty
from engine.library.parsers import html
from tests.helpers.parsing import said


def test_the_structure_of_a_page(parsed):
    document = parsed(
        "a.html",
        "<html><head><title> The  Title </title></head><body><h1>One &amp; only</h1>"
        "<p>First<br>second   <b>bold</b>\nline.</p>loose text<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>"
        "<table><caption>Fees</caption><thead><tr><th>x</th><th>y</th></tr></thead><tr><td>1</td><td>2<br>3</td></tr>"
        "</table><pre>  code\n    here</pre><h3>Three</h3></body></html>",
    )
    assert (document.format, document.title) == ("html", "The Title")
    assert said(document) == [
        ("heading", "One & only"),
        ("paragraph", "First\nsecond bold line."),
        ("paragraph", "loose text"),
        ("list_item", "a"),
        ("list_item", "b"),
        ("list_item", "c"),
        ("paragraph", "Fees"),
        ("table_row", "x | y"),
        ("table_row", "1 | 2 3"),
        ("code", "code\n    here"),
        ("heading", "Three"),
    ]
    assert [block.level for block in document.pages[0].blocks if block.kind == "heading"] == [1, 3]


def test_what_is_not_the_page_itself_is_dropped(parsed):
    document = parsed(
        "a.html",
        "<html><body><header>Logo</header><nav>Home</nav><script>x()</script><style>p{}</style>"
        "<article><header>By Anna</header><p>The story.</p></article><p hidden>secret</p>"
        "<div style='display: none'>ad</div><div role='navigation'>more</div><footer>Imprint</footer></body></html>",
    )
    assert [text for _, text in said(document)] == ["By Anna", "The story."]


def test_the_main_part_stands_for_the_page(parsed):
    document = parsed("a.html", "<html><body><div>menu</div><main><p>The text of the page.</p></main></body></html>")
    assert [text for _, text in said(document)] == ["The text of the page."]


def test_an_empty_main_part_does_not(parsed):
    document = parsed("a.html", "<html><body><main></main><p>All the text is out here.</p></body></html>")
    assert [text for _, text in said(document)] == ["All the text is out here."]


def test_a_table_that_arranges_the_page_is_read_as_text(parsed):
    document = parsed("a.html", "<html><table><tr><td><h2>News</h2><p>Today.</p></td></tr></table></html>")
    assert said(document) == [("heading", "News"), ("paragraph", "Today.")]


@pytest.mark.parametrize(
    "content",
    [
        "<html><meta charset='iso-8859-1'><p>Größe</p></html>".encode("latin-1"),
        '<html><meta http-equiv="Content-Type" content="text/html; charset=windows-1252"><p>Größe</p>'.encode("cp1252"),
        '<?xml version="1.0" encoding="utf-8"?><html><p>Größe</p></html>'.encode(),
        "<html><p>Größe</p></html>".encode("utf-16"),
    ],
)
def test_the_encoding_is_found(parsed, content: bytes):
    assert [text for _, text in said(parsed("a.html", content))] == ["Größe"]


def test_entities_and_files_are_not_fetched(parsed, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    document = parsed(
        "a.html",
        f'<!DOCTYPE html [<!ENTITY x SYSTEM "file://{tmp_path}/secret.txt">]><html><body><p>a &x; b</p></body></html>',
    )
    assert "secret" not in document.pages[0].text


def test_a_page_without_text_is_empty(parsed):
    with pytest.raises(DocumentEmpty):
        parsed("a.html", "<html><script>x()</script></html>")


def test_deep_nesting_is_survived(parsed):
    document = parsed("a.html", "<html>" + "<div>" * 200 + "deep" + "</div>" * 200 + "</html>")
    assert said(document) == [("paragraph", "deep")]


def test_a_header_that_bears_the_title_is_read(parsed):
    document = parsed(
        "a.html",
        '<body><header id="title-block-header"><h1>Report</h1><p class="author">Jane Doe</p></header>'
        "<h2>Aim</h2><p>To tell.</p></body>",
    )
    assert [text for _, text in said(document)] == ["Report", "Jane Doe", "Aim", "To tell."]


def test_a_header_above_another_title_is_about_the_site(parsed):
    document = parsed("a.html", "<body><header><h1>Our shop</h1>Call us.</header><h1>Lamps</h1></body>")
    assert said(document) == [("heading", "Lamps")]


def test_a_warning_is_read(parsed):
    document = parsed("a.html", '<body><p>Plug it in.</p><div role="alert">Never pull the plug.</div></body>')
    assert said(document)[-1] == ("paragraph", "Never pull the plug.")


@pytest.mark.parametrize("lines", ["one<br>two<br/>  three", "<div>one</div><div>two</div>  three"])
def test_preformatted_lines_may_be_told_by_elements(parsed, lines: str):
    assert said(parsed("a.html", f"<body><pre>{lines}</pre></body>")) == [("code", "one\ntwo\n  three")]


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        ("<math><mi>x</mi><mo>=</mo><mn>5</mn></math>", "x=5"),
        ("<math><mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac></math>", "(a+b)/2"),
        ("<math><msup><mi>r</mi><mn>2</mn></msup><mtext> if round</mtext></math>", "r^2 if round"),
        (
            "<math><semantics><mrow><mi>E</mi></mrow><annotation encoding='application/x-tex'>E = mc^2</annotation>"
            "</semantics></math>",
            "E = mc^2",
        ),
        ("<span style='display: none'><math alttext='{\\displaystyle E=mc^{2}}'><mi>E</mi></math></span>", "E=mc^{2}"),
    ],
)
def test_formulas_are_read_where_they_stand(parsed, formula: str, shown: str):
    document = parsed("a.html", f"<body><p>Here {formula} holds.</p><h2>On {formula}</h2></body>")
    assert said(document) == [("paragraph", f"Here {shown} holds."), ("heading", f"On {shown}")]


def test_what_pictures_show_is_read_behind_their_paragraph(parsed):
    document = parsed(
        "a.html",
        '<body><p>The pump<img alt="Diagram of the pump" src="p.png"> runs.</p><img alt="p.png"><img alt="">'
        '<table><tr><td><img alt="A valve, open">Valve</td></tr></table></body>',
    )
    assert said(document) == [
        ("paragraph", "The pump runs."),
        ("paragraph", "Picture: Diagram of the pump"),
        ("table_row", "Valve"),
        ("paragraph", "Picture: A valve, open"),
    ]


def test_a_caption_is_read_once_and_buttons_are_no_pictures(parsed):
    document = parsed(
        "a.html",
        '<body><figure><img alt="Sales by year"><figcaption>Sales  by year</figcaption></figure>'
        '<figure><img alt="Costs by year"><figcaption aria-hidden="true">Costs by year</figcaption></figure>'
        '<a href="/like"><img alt="Like this"></a><a href="/x"><img alt="Sketch of a barn"></a></body>',
    )
    assert [text for _, text in said(document)] == [
        "Sales by year",
        "Picture: Costs by year",
        "Picture: Sketch of a barn",
    ]


def test_captions_of_a_gallery_are_those_of_its_pictures(parsed):
    pictures = "".join(
        f'<figure><img alt="The barn from {side}"><figcaption>{caption}</figcaption></figure>'
        for side, caption in (("north", "The barn from north"), ("south", "In summer"))
    )
    document = parsed("a.html", f"<body><figure>{pictures}<figcaption>Barns</figcaption></figure></body>")
    assert [text for _, text in said(document)] == [
        "The barn from north",
        "Picture: The barn from south",
        "In summer",
        "Barns",
    ]


def test_a_caption_is_looked_up_once_for_all_pictures_of_its_figure(parsed, monkeypatch: pytest.MonkeyPatch):
    looked_for: list[tuple[str, str]] = []
    seen = html._seen

    def counted(element, tag):
        looked_for.append((element.tag, tag))
        return seen(element, tag)

    monkeypatch.setattr(html, "_seen", counted)
    pictures = "".join(f'<img alt="Barn number {number}">' for number in range(9))
    parsed("a.html", f"<body><figure>{pictures}<figcaption>Barn number 7</figcaption></figure></body>")
    assert looked_for.count(("figure", "figcaption")) == 1


def test_how_signs_are_pronounced_is_not_read_between_them(parsed):
    document = parsed(
        "a.html", "<body><p>漢字は<ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp>京<rt>きょう</rt></ruby>です</p></body>"
    )
    assert said(document) == [("paragraph", "漢字は東京です")]


def test_the_rows_of_a_form_are_read(parsed):
    document = parsed("a.html", "<body><table><form><tr><td>a</td><td>b</td></tr></form></table></body>")
    assert said(document) == [("table_row", "a | b")]


def test_a_cell_of_several_rows_is_said_in_each(parsed):
    document = parsed(
        "a.html",
        "<table><tr><th>Year</th><th>City</th><th>Sales</th></tr>"
        "<tr><td rowspan=2>2023</td><td>Rome</td><td>5</td></tr>"
        "<tr><td>Paris</td><td>7</td></tr><tr><td>2024</td><td colspan=2 rowspan=0>none</td></tr><tr><td>2025</td></tr>"
        "</table>",
    )
    assert [text for _, text in said(document)] == [
        "Year | City | Sales",
        "2023 | Rome | 5",
        "2023 | Paris | 7",
        "2024 | none",
        "2025 | none",
    ]


def test_a_number_of_rows_without_end_is_all_that_follow(parsed):
    document = parsed(
        "a.html", f"<table><tr><td rowspan={'9' * 5000}>2023</td><td>Rome</td></tr><tr><td>Paris</td></tr></table>"
    )
    assert [text for _, text in said(document)] == ["2023 | Rome", "2023 | Paris"]


def test_what_cells_reach_over_is_not_said_again_without_end(parsed):
    rows = "".join(f"<tr><td rowspan=65534>{'x' * 200}</td><td>{number}</td></tr>" for number in range(400))
    document = parsed("a.html", f"<table>{rows}</table>")
    assert len(document.pages[0].text) < 2 * 10**6
    assert said(document)[-1][1].endswith("399")
