"""Tests for engine.library.parsers.rst, org, tex, tex_words, notebook, table, data, flattening and xml."""

from __future__ import annotations

import itertools
import json

import pytest

from engine.core import ParsedDocument
from engine.errors import DocumentTooLarge, DocumentUnreadable
from engine.library.chunker import chunk, estimate_tokens
from engine.library.parsers import data, flattening
from engine.library.parsers.flattening import Node
from engine.library.parsers.table import delimiter_of, is_header
from engine.library.parsers.tex_words import readable
from engine.library.places import Places
from tests.helpers.parsing import said


def lines(document: ParsedDocument) -> list[int]:
    return [block.line for block in document.pages[0].blocks]


def headings(document: ParsedDocument) -> list[tuple[int, str]]:
    page = document.pages[0]
    return [
        (block.level, block.label or page.text[block.start : block.end])
        for block in page.blocks
        if block.kind == "heading"
    ]


# --- reStructuredText ---


def test_rst_titles_have_the_level_of_their_style(parsed):
    source = "=====\nTitle\n=====\n\nText.\n\nFirst\n=====\n\nDeeper\n------\n\nSecond\n======\n\nMore.\n"
    document = parsed("a.rst", source)
    assert document.format == "rst"
    assert headings(document) == [(1, "Title"), (2, "First"), (3, "Deeper"), (2, "Second")]
    assert lines(document) == [1, 5, 7, 10, 13, 16]


def test_rst_titles_are_said_without_their_markup(parsed):
    assert headings(parsed("a.rst", "Using :py:class:`Path <pathlib>` and ``open``\n" + "=" * 60 + "\n\nText.\n")) == [
        (1, "Using Path and open")
    ]


def test_a_long_comment_of_rst_takes_no_time_before_words(parsed):
    comment = ".. An old remark\n" + "        that goes on and on\n" * 40
    assert [text for _, text in said(parsed("a.rst", f"{comment}unindented words\n\nText.\n"))][-1] == "Text."


def test_rst_tables_and_transitions_are_no_titles(parsed):
    document = parsed("a.rst", "Text.\n\n----\n\n=====  =====\nA      B\n=====  =====\n1      2\n=====  =====\n")
    assert headings(document) == []


def test_rst_footnotes_and_signatures_are_shown(parsed):
    source = "Text.\n\n.. [1] Smith 2019, p. 4\n\n.. py:function:: open_store(path)\n\n.. a comment\n"
    assert [text for _, text in said(parsed("a.rst", source))] == [
        "Text.",
        ".. [1] Smith 2019, p. 4",
        ".. py:function:: open_store(path)",
    ]


def test_rst_literal_blocks_are_code_and_targets_are_unshown(parsed):
    document = parsed("a.rst", ".. _target:\n\nAn example::\n\n    x = 1\n\n    y = 2\n\nAfter.\n\n.. a comment\n")
    assert said(document) == [
        ("paragraph", "An example::"),
        ("code", "x = 1"),
        ("code", "y = 2"),
        ("paragraph", "After."),
    ]


# --- Org ---


def test_org_headlines_tables_and_code(parsed):
    source = (
        "#+TITLE: Notes\n#+AUTHOR: Nobody\n\n* TODO [#A] Buy tea :home:\n:PROPERTIES:\n:ID: 1\n:END:\nTwo kinds.\n\n"
        "** See [[https://x.y][the shop]]\n| kind | price |\n|------+-------|\n| oolong | 7 |\n\n"
        "#+BEGIN_SRC python\nprint(1)\n\nprint(2)\n#+END_SRC\n"
    )
    document = parsed("a.org", source)
    assert (document.format, document.title) == ("org", "Notes")
    assert headings(document) == [(1, "Buy tea"), (2, "See the shop")]
    assert [entry for entry in said(document) if entry[0] != "heading"] == [
        ("paragraph", "Two kinds."),
        ("table_row", "| kind | price |"),
        ("table_row", "| oolong | 7 |"),
        ("code", "print(1)\n\nprint(2)"),
    ]
    assert lines(document) == [4, 8, 10, 11, 13, 16]


# --- TeX ---


def test_tex_is_read_as_it_would_be_printed(parsed):
    source = r"""\documentclass{article}
\usepackage{graphicx} % a comment
\title{On \emph{Okapis}}
\begin{document}
\section{Habitat \label{sec:h}}
Okapis live in the \textbf{Ituri \emph{forest}}~\cite{smith} of
Z\"urich\footnote{not really}, 50\% of them.

\begin{itemize}
  \item They eat leaves.
  \item[Night] They sleep.
\end{itemize}
The formula $a_{1} + \frac{1}{2}$ stays.
\begin{verbatim}
\section{no heading}
\end{verbatim}
\end{document}
ignored
"""
    document = parsed("a.tex", source)
    assert (document.format, document.title) == ("tex", "On Okapis")
    assert headings(document) == [(2, "Habitat")]
    text = document.pages[0].text
    assert "Okapis live in the Ituri forest of\nZürichnot really, 50% of them." in text
    assert "- They eat leaves." in text
    assert "- Night: They sleep." in text
    assert r"$a_{1} + \frac{1}{2}$ stays" in text
    assert ("code", r"\section{no heading}") in said(document)
    assert "ignored" not in text
    assert "usepackage" not in text
    assert dict(zip((entry[1].split()[0] for entry in said(document)), lines(document), strict=True))["Okapis"] == 6


def test_what_org_opens_and_never_closes_hides_nothing(parsed):
    source = ":LOGBOOK:\nhidden\n:END:\n" + ":note:\n" * 3000 + "Words.\n#+BEGIN_SRC python\nprint()\n#+END_SRC\n"
    texts = [text for _, text in said(parsed("a.org", source + "#+begin_example\nThe end.\n"))]
    assert texts[0].endswith("Words.")
    assert texts[1:] == ["print()", "The end."]


def test_org_tags_and_blanks_are_no_part_of_a_headline(parsed):
    source = "* One  two :a:b:  \n** Three : not a tag\n* Four" + " " * 5000 + "five\n"
    found = [text for _, text in headings(parsed("a.org", source))]
    assert found == ["One  two", "Three : not a tag", "Four" + " " * 5000 + "five"]


def test_tex_that_closes_nothing_is_read_as_soon_and_all_of_it(parsed):
    source = "\\section{One}\n" + "a & b \\\\[2pt]\n" * 3000 + "\\newpage\n" + "% gone\n" * 3000
    source += "\\begin{verbatim}\n" * 300 + "The end.\n"
    text = parsed("a.tex", source).pages[0].text
    assert text.count("a | b") == 3000
    assert "gone" not in text
    assert text.rstrip().endswith("The end.")


def test_lines_of_tex_are_those_of_its_source(parsed):
    source = "One.\n\n\\section{Two}\n\nThree.\n\\begin{verbatim}\ncode\n\\end{verbatim}\n\nFour.\n\nFive.\n"
    (page,) = parsed("a.tex", source).pages
    assert [block.line for block in page.blocks] == [1, 3, 5, 7, 10, 12]


def test_tex_without_a_document_is_read_all_the_same(parsed):
    assert said(parsed("a.tex", "\\section{One}\nText.\n")) == [("heading", "One"), ("paragraph", "Text.")]


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        (r"\'el\`eve, gar\c{c}on, \ss{}", "élève, garçon, ß"),
        (r"``quoted'' -- and --- so", "“quoted” – and — so"),
        (r"\{braces\} \& 5\,\%", "{braces} & 5%"),
        (r"\href{http://x.y}{a link} \textcolor{red}{red}", "a link red"),
        (r"unfinished \textbf{brace", r"unfinished brace"),
        (r"a \\ b", "a b"),
    ],
)
def test_tex_commands_give_way_to_what_they_print(source, printed):
    assert readable(source) == printed


# --- notebooks ---


def notebook(*cells: dict[str, object]) -> str:
    return json.dumps({"cells": cells, "nbformat": 4, "metadata": {}})


def test_a_notebook_is_cited_by_cell(parsed):
    document = parsed(
        "a.ipynb",
        notebook(
            {"cell_type": "markdown", "source": ["# Tea\n", "\n", "Steep it."]},
            {
                "cell_type": "code",
                "source": "x = 1\nprint(x)",
                "outputs": [{"output_type": "stream", "text": ["1\n"]}, {"data": {"text/plain": "y" * 5000}}],
            },
        ),
    )
    assert document.format == "notebook"
    assert [entry[:2] for entry in said(document)][:4] == [
        ("heading", "# Tea"),
        ("paragraph", "Steep it."),
        ("code", "x = 1\nprint(x)"),
        ("code", "1"),
    ]
    assert lines(document) == [1, 1, 2, 2, 2]
    assert len(document.pages[0].text) < 1100
    assert chunk(document, estimate_tokens, 20, 0)[0].place == "cells 1–2"


def test_a_picture_in_a_notebooks_prose_is_no_passage(parsed):
    cell = {"cell_type": "markdown", "source": f"A plot:\n![p](data:image/png;base64,{'iVBORw0KGgo' * 900})"}
    assert said(parsed("a.ipynb", json.dumps({"cells": [cell]}))) == [("paragraph", "A plot:\n![p](data:image/png;…)")]


def test_a_notebooks_title_has_no_half_characters(parsed):
    content = {"cells": [{"source": "x = 1"}], "metadata": {"title": "Tea \ud800 time\n"}}
    assert parsed("a.ipynb", json.dumps(content)).title == "Tea time"


def test_a_broken_notebook_says_so(parsed):
    with pytest.raises(DocumentUnreadable, match="notebook is damaged"):
        parsed("a.ipynb", '{"cells": 3}')


# --- tables ---


def test_each_row_of_a_table_says_what_its_cells_are(parsed):
    document = parsed("a.csv", 'Name,City,Note\nAnn,Berlin,\nBob,"Paris, France","two\nlines"\n')
    assert (document.format, document.line_word) == ("table", "row")
    assert said(document) == [
        ("table_row", "Name: Ann | City: Berlin"),
        ("table_row", "Name: Bob | City: Paris, France | Note: two lines"),
    ]
    assert lines(document) == [2, 3]
    assert [part.place for part in chunk(document, estimate_tokens, 240, 0)] == ["rows 2–3"]


def test_a_table_without_a_header_keeps_its_rows(parsed):
    assert said(parsed("a.csv", "1,2\n3,4\n")) == [("table_row", "1 | 2"), ("table_row", "3 | 4")]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter):
    rows = [["name", "amount, net", "x"], ["a; b", "1,5", "y"], ["c|d", "2,5", "z"]]
    sample = "\n".join(delimiter.join(f'"{cell}"' for cell in cells) for cells in rows)
    assert delimiter_of(sample) == delimiter


def test_lines_that_are_no_table_stay_lines(parsed):
    document = parsed("a.csv", "Just one sentence.\nAnd another one\n")
    assert said(document) == [("table_row", "Just one sentence."), ("table_row", "And another one")]


def test_a_header_has_no_numbers_and_no_name_twice():
    assert is_header(["Name", "Year"], [["Ann", "1990"]])
    assert not is_header(["Ann", "1990"], [["Bob", "1991"]])
    assert not is_header(["x", "x"], [["1", "2"]])


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        (["Species", "Found"], [["newt", "2019-05-01"], ["toad", "n/a"], *[["frog", "3 May 2020"]] * 4]),
        (["Who", "Where"], [["Ann", "ann@example.org"], ["Bob", "bob@example.org"]]),
        (["Plant", "Habit"], [["oak", "tree"], ["ash", "tree"], ["rose", "shrub"], ["hazel", "shrub"]]),
        (["Why", "Because"], [["Rain", "The clouds were too heavy to go on. " * 3]] * 3),
        (["genus", "habitat"], [["Quercus", "Woods"], ["Rosa", "Hedges"], ["Salix", "River banks"]]),
        (["", "Habitat"], [["0", "Woods"], ["1", "Hedges"], ["2", "River banks"]]),
        (["Kunde", "Vorname"], [["Meier", "Anna"]]),
        (["first_seen", "last_seen"], [["spring", "autumn"]]),
    ],
)
def test_a_first_row_of_another_kind_than_the_others_is_a_header(first, rows):
    assert is_header(first, rows)


@pytest.mark.parametrize(
    "names",
    [
        "Nome,Cognome,Ruolo",
        "Voornaam,Achternaam,Afdeling",
        "Imię,Nazwisko,Miasto",
        "Имя,Фамилия,Город",
        "姓名,部门,职位",
        "氏名,部署,役職",
        "이름,부서,직위",
        "Nome,Sobrenome,Cidade",
        "Förnamn,Efternamn,Stad",
        "Ad,Soyad,Şehir",
        "Term,Definition",
        "Begriff,Bedeutung",
        "Aufgabe,Zuständig,Fällig",
        "English,German",
        "Employee,Manager,Office",
        "Book,Writer,Publisher",
        "Animal,Habitat,Diet",
        "Element,Symbol",
    ],
)
def test_a_table_of_words_is_known_by_what_its_columns_are_called(names):
    first = names.split(",")
    assert is_header(first, [["Xa", "Yb", "Zc"][: len(first)], ["Xd", "Ye", "Zf"][: len(first)]])


@pytest.mark.parametrize("rows", [[["Anna", "German"], ["Bob", "French"]], [["Anna", "Manager"], ["Bob", "Cook"]]])
def test_words_that_columns_are_called_by_may_stand_in_their_cells(rows):
    assert not is_header(rows[0], rows[1:])


def test_a_list_of_languages_is_no_header():
    assert not is_header(["English", "German"], [["French", "Spanish"], ["Dutch", "Latin"]])


@pytest.mark.parametrize(
    "source",
    [
        "apple\tApfel\npear\tBirne\nplum\tPflaume\ncherry\tKirsche\n",
        "run\tlaufen\tverb\nplum\tPflaume\tnoun\neat\tessen\tverb\nsee\tsehen\tverb\n",
        "Ann Miller\tBerlin\tEngineer\nBob Jones\tParis\tChemist\nCid Stone\tRome\tCook\n",
    ],
)
def test_a_first_row_like_all_others_is_no_header(parsed, source):
    assert [text for _, text in said(parsed("a.tsv", source))] == source.strip().replace("\t", " | ").split("\n")


def test_a_table_may_say_what_separates_its_cells(parsed):
    document = parsed("a.csv", "sep=;\nName;Price, net\nTea;1,50\nMilk, fresh;2,50\n")
    assert said(document) == [
        ("table_row", "Name: Tea | Price, net: 1,50"),
        ("table_row", "Name: Milk, fresh | Price, net: 2,50"),
    ]
    assert lines(document) == [2, 3]


def test_long_texts_in_quotes_leave_a_table_one():
    story = "The quick, brown fox jumps over the lazy dog; it is a nice day. " * 40
    rows = [f'{number},Review {number},"{story}"\n' for number in range(60)]
    assert delimiter_of("id,title,body\n" + "".join(rows)) == ","
    # What is cut is a short row without quotes.
    assert delimiter_of("".join(f"{number}|{'x' * 4000}|{'y' * 4000}\n" for number in range(20))) == "|"


def test_a_quote_that_nothing_closes_swallows_no_rows(parsed):
    source = "".join(f"item{number}\t{number % 3} of it\n" for number in range(300))
    document = parsed("a.tsv", "name\tnote\n" + source.replace("item100\t", 'item100\t"5 inch: '))
    assert lines(document) == list(range(2, 302))
    assert said(document)[100] == ("table_row", 'name: item100 | note: "5 inch: 1 of it')


def test_a_cell_of_many_lines_is_one(parsed):
    letter = "Dear Ann,\n" + "we were there, too\n" * 80 + "Yours, Bob"
    document = parsed("a.csv", f'id,date,letter\n1,2024-05-01,"{letter}"\n2,2024-05-02,"Dear Bob, thanks"\n')
    assert lines(document) == [2, 3]


# --- JSON, YAML, XML ---


def test_json_keeps_the_paths_of_its_values(parsed):
    document = parsed(
        "a.json", json.dumps({"name": "web", "servers": [{"host": "a", "ports": [80, 443]}], "on": True, "off": None})
    )
    assert document.format == "json"
    assert said(document) == [
        ("table_row", "name: web | on: true"),
        ("table_row", "servers[0] | host: a"),
        ("table_row", "servers[0].ports | 80, 443"),
    ]


def test_long_texts_in_json_are_paragraphs(parsed):
    document = parsed("a.json", json.dumps({"title": "x", "body": "A long story. " * 40}))
    assert [kind for kind, _ in said(document)] == ["table_row", "paragraph"]


def test_what_is_nearly_json_is_read_as_it_is(parsed):
    document = parsed("a.json", '// settings\n{"a": 1,}\n')
    assert (document.format, document.line_word) == ("json", "line")


def test_json_under_another_name_is_told_by_its_content(parsed):
    assert parsed("a.txt", '{"a": {"b": 1}}').format == "json"
    assert parsed("b.txt", "{braces} in a text").format == "text"


def test_records_of_json_are_cited_by_line(parsed):
    document = parsed("a.jsonl", '{"id": 1, "q": "why"}\n\nno record\n{"id": 2, "inner": {"x": 3}}\n')
    assert said(document) == [
        ("table_row", "id: 1 | q: why"),
        ("table_row", "no record"),
        ("table_row", "id: 2"),
        ("table_row", "inner | x: 3"),
    ]
    assert lines(document) == [1, 3, 4, 4]


def test_a_record_that_is_shown_on_many_lines_is_one_line_of_its_file(parsed):
    records = [json.dumps({"id": number, "text": "many words\n" * 40}) for number in range(3)]
    document = parsed("a.jsonl", "\n".join(records))
    (page,) = document.pages
    places = Places(document, page)
    last = page.text.rindex("many words")
    assert places.place(0, 20) == "line 1"
    assert places.place(last, last + 10) == "line 3"
    assert places.place(0, last + 10) == "lines 1–3"


def test_yaml_is_cited_by_line(parsed):
    document = parsed("a.yaml", "# settings\nname: web\nservers:\n  - host: a\n    port: 80\n---\nother: doc\n")
    assert said(document) == [
        ("paragraph", "# settings"),
        ("table_row", "name: web"),
        ("table_row", "servers[0] | host: a | port: 80"),
        ("table_row", "other: doc"),
    ]
    assert lines(document) == [1, 2, 4, 7]


def test_comments_of_yaml_stand_before_what_they_are_about(parsed):
    document = parsed(
        "a.yaml",
        """# ------
# Für alle: doubled because
# the mirror is slow.

timeout: 60
retries: 3  # never more
"odd # key": 'no # comment'
note: |
  # no comment either
hosts:
  # The old one.
  - a#1
# The end.
""",
    )
    assert said(document) == [
        ("paragraph", "# ------\n# Für alle: doubled because\n# the mirror is slow."),
        ("table_row", "timeout: 60"),
        ("paragraph", "# never more"),
        ("table_row", "retries: 3 | odd # key: no # comment | note: # no comment either"),
        ("paragraph", "# The old one."),
        ("table_row", "hosts | a#1"),
        ("paragraph", "# The end."),
    ]
    assert lines(document) == [1, 5, 6, 6, 11, 12, 13]


@pytest.mark.parametrize("first", ["[a, b]", "[[], []]"])
def test_a_bomb_of_references_is_refused_before_it_goes_off(parsed, monkeypatch, first):
    num_made = itertools.count()

    def made(*values, **more):
        next(num_made)
        return Node(*values, **more)

    monkeypatch.setattr(flattening, "MAX_VALUES", 1000)
    monkeypatch.setattr(data, "Node", made)
    levels = "\n".join(f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 5))
    with pytest.raises(DocumentTooLarge, match="values"):
        parsed("a.yaml", f"l0: &l0 {first}\n{levels}\n")
    assert next(num_made) < 2000


def test_a_list_that_is_a_key_is_not_said_in_full(parsed):
    levels = "\n".join(f"l{level}: &l{level} [*l{level - 1}, *l{level - 1}]" for level in range(1, 7))
    bomb = f"l0: &l0 [a]\n{levels}\n? *l6\n: the value\n"
    assert parsed("a.yaml", bomb).pages[0].text.startswith("the value")


def test_yaml_that_is_none_is_read_as_it_is(parsed):
    assert parsed("a.yml", "{{ template }}\n  - : :\n").format == "yaml"
    assert parsed("b.yml", "Only a sentence.").format == "yaml"


def test_xml_data_keeps_its_paths_and_prose_its_sentences(parsed):
    document = parsed(
        "a.xml",
        '<?xml version="1.0"?>\n<book id="7"><title>Tea</title>\n<para>Steep <em>it</em> well.</para>\n'
        "<parts>\n<part><n>1</n><n>2</n></part></parts></book>",
    )
    assert (document.format, document.title) == ("xml", "Tea")
    assert said(document) == [
        ("table_row", "id: 7 | title: Tea | para: Steep it well."),
        ("table_row", "parts.part | n: 1, 2"),
    ]
    assert lines(document) == [2, 5]


def test_paragraphs_in_a_text_of_xml_are_not_glued_and_marks_are(parsed):
    document = parsed(
        "a.xml", "<a><sec>Intro<p>First.</p><p>Se<b>con</b>d.</p>CO<sub>2</sub>, e<!-- x -->nd</sec><b>x</b></a>"
    )
    assert said(document)[0] == ("table_row", "sec: Intro First. Second. CO2, end | b: x")


def test_xml_that_says_all_in_attributes_is_read(parsed):
    document = parsed(
        "a.xml", '<smses count="2"><sms from="Ada" body="See you at 8"/><sms from="Bo" body="Fine"/></smses>'
    )
    text = " ".join(text for _, text in said(document))
    assert all(words in text for words in ("Ada", "See you at 8", "Bo", "Fine"))


def test_no_entity_of_xml_is_resolved(parsed, tmp_path):
    (tmp_path / "secret").write_text("the secret")
    document = parsed(
        "a.xml", f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]><a><b>See &x; there.</b></a>'
    )
    assert "the secret" not in document.pages[0].text


def test_broken_xml_is_read_as_it_is(parsed):
    assert parsed("a.xml", "<a><b>text</a>").format == "xml"
