"""Tests for engine.retrieval.recognise and engine.retrieval.names."""

from __future__ import annotations

import os
from collections.abc import Collection
from datetime import date

import pytest

from engine.catalog.scopes import Named, file_names, folded_name
from engine.retrieval.kinds import FORMATS_OF_KIND
from engine.retrieval.names import MAX_FILES
from engine.retrieval.recognise import Recognised, recognise

# Names that questions hold by chance.
TRAPS = ("the.md", "format.pdf", "system.md", "ein.txt", "eine.txt", "texto.txt", "una.md", "process.docx", "Öffnen.md")
FILES = (
    "/home/work/lease 2024.pdf",
    "/home/work/Budget.xlsx",
    "/home/book/Cargo.toml",
    "/home/Verträge/miete.docx",
    "/home/notes.md",
    "/home/tax/a.txt",
    *(f"/home/traps/{name}" for name in TRAPS),
    "/home/Structure/notes-1.md",
    "/home/Art/notes-2.md",
    "/home/work/sales 2024.csv",
    "/home/work/minutes.txt",
    "/home/site/index.html",
    "/home/site/index.md",
    "/home/work/todo.md",
    "/home/tax/todo.md",
    "/home/work/租赁合同.pdf",
    "/home/work/2023年报告.docx",
    "/home/work/《红楼梦》.epub",
    *(f"/home/many/{number}/README.md" for number in range(MAX_FILES + 1)),
)
FOLDERS = frozenset({os.path.dirname(file) for file in FILES} | {"/home", "/home/many"})
COLLECTIONS = ("Documents", "Rust", "Rust book", "Art", "Arte")
TODAY = date(2026, 3, 31)


def find(names: Collection[str]) -> Named:
    wanted = {folded_name(name) for name in names}
    return Named(
        frozenset(file for file in FILES if wanted & file_names(file)),
        frozenset(folder for folder in FOLDERS if folded_name(os.path.basename(folder)) in wanted),
    )


def read(question: str) -> Recognised:
    return recognise(question, COLLECTIONS, find, TODAY)


@pytest.mark.parametrize(
    ("question", "path", "told"),
    [
        ("What does lease 2024.pdf say about pets?", "/home/work/lease 2024.pdf", "only “lease 2024.pdf”"),
        ("Summarise BUDGET.XLSX", "/home/work/Budget.xlsx", "only “Budget.xlsx”"),
        ("What is in the file Cargo.toml?", "/home/book/Cargo.toml", "only “Cargo.toml”"),
        ("What does the file “notes.md” say?", "/home/notes.md", "only “notes.md”"),
        ("What does minutes.txt say about pets?", "/home/work/minutes.txt", "only “minutes.txt”"),
        ("How much was sold by sales 2024.csv?", "/home/work/sales 2024.csv", "only “sales 2024.csv”"),
        ("Was steht in notes.md über Haustiere?", "/home/notes.md", "only “notes.md”"),
        ("What is in the file index.html of pets?", "/home/site/index.html", "only “index.html”"),
        ("What is in the document lease 2024 about heating?", "/home/work/lease 2024.pdf", "only “lease 2024.pdf”"),
        ("Was steht in der Datei miete über Haustiere?", "/home/Verträge/miete.docx", "only “miete.docx”"),
        ("¿Qué dice el archivo notes.md sobre el gato?", "/home/notes.md", "only “notes.md”"),
        ("Was steht im Ordner Verträge über Haustiere?", "/home/Verträge", "only the folder “Verträge”"),
        ("What is the deadline in my tax folder?", "/home/tax", "only the folder “tax”"),
        ("¿Qué hay en la carpeta tax sobre dinero?", "/home/tax", "only the folder “tax”"),
    ],
)
def test_a_file_or_folder_of_the_library_is_recognised_by_its_name(question: str, path: str, told: str):
    found = read(question)
    assert (found.paths, found.paths_told) == ((path,), told)


@pytest.mark.parametrize(
    "question",
    [
        "How do I add a dependency in Cargo.toml?",
        "What does missing.pdf say?",
        "What does missing.txt say about pets?",
        "How do I link a style sheet in index.html?",
        "Is https://example.org/minutes.txt read by browsers?",
        "What is left to do in todo.md?",
        "What is in index.md of pets?",
        "What does the lease say about rent? Save it to minutes.txt",
        "Write what it says of rent into “minutes.txt”",
        "Was steht da zur Miete? Bitte speichere es in minutes.txt",
        "Guarda en minutes.txt lo que dice del alquiler",
        "Export the rents as lease 2024.pdf",
        "Which folder is the best for tax matters?",
        "What is not in the file notes.md?",
        "What is in the file README.md about cats?",
        "What is lease accounting?",
    ],
)
def test_names_that_are_no_place_to_look_confine_nothing(question: str):
    assert read(question).paths == ()


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("租赁合同.pdf里的押金是多少？", ["租赁合同.pdf"]),
        ("总结《租赁合同.pdf》", ["租赁合同.pdf"]),
        ("总结租赁合同.pdf", ["租赁合同.pdf"]),
        ("押金是多少？请看「租赁合同.pdf」。", ["租赁合同.pdf"]),
        ("请帮我总结一下lease 2024.pdf", ["lease 2024.pdf"]),
        ("请看《lease 2024.pdf》，押金是多少？", ["lease 2024.pdf"]),
        ("总结2023年报告.docx的重点", ["2023年报告.docx"]),
        ("比较租赁合同.pdf和2023年报告.docx里的押金", ["租赁合同.pdf", "2023年报告.docx"]),
        ("比较《租赁合同.pdf》和《lease 2024.pdf》的押金", ["租赁合同.pdf", "lease 2024.pdf"]),
        ("minutes.txt里说了什么？", ["minutes.txt"]),
        ("总结《红楼梦》.epub", ["《红楼梦》.epub"]),
        ("What does 租赁合同.pdf say about pets?", ["租赁合同.pdf"]),
        ("别看Budget.xlsx。租赁合同.pdf里的押金是多少？", ["租赁合同.pdf"]),
        # Of these there is none, or it is not to be looked into.
        ("合同.pdf里的押金是多少？", []),
        ("租赁合同.pdfx里的押金是多少？", []),
        ("看index.md里的押金", []),
        ("租赁合同.pdf有没有提到宠物？", ["租赁合同.pdf"]),
        ("租赁合同.pdf里能不能找到不可抗力条款？", ["租赁合同.pdf"]),
        ("租赁合同.pdf是不是关于别墅的？", ["租赁合同.pdf"]),
        ("不要看租赁合同.pdf，押金是多少？", []),
        ("把押金保存到minutes.txt", []),
        ("把押金写入《租赁合同.pdf》", []),
        ("除了租赁合同.pdf，哪里提到押金？", []),
    ],
)
def test_a_name_is_found_between_chinese_words(question: str, names: list[str]):
    assert [os.path.basename(path) for path in read(question).paths] == names


@pytest.mark.parametrize(
    ("question", "is_sure"),
    [
        ("How do I open minutes.txt in Python?", False),
        ("What did I write to Anna about pets in minutes.txt?", False),
        ("What does the file minutes.txt say about pets?", True),
        ("What does lease 2024.pdf say about pets?", True),
        ("Compare minutes.txt with lease 2024.pdf on pets", True),
    ],
)
def test_a_name_that_programs_use_as_well_may_be_meant_otherwise(question: str, is_sure: bool):
    found = read(question)
    assert found.paths
    assert found.names_file is is_sure


def test_a_sentence_that_denies_leaves_the_others_alone():
    found = read("Not Budget.xlsx! What does lease 2024.pdf say of rent? And no more.")
    assert found.paths_told == "only “lease 2024.pdf”"


def test_who_pastes_a_list_of_files_has_not_asked_about_each():
    names = " ".join(f"x{number}.pdf" for number in range(70))
    assert read(f"Which of lease 2024.pdf {names} are missing?").paths == ()


def test_two_files_are_both_looked_into():
    found = read("Compare lease 2024.pdf with Budget.xlsx on heating costs")
    assert set(found.paths) == {"/home/work/lease 2024.pdf", "/home/work/Budget.xlsx"}
    assert found.paths_told == "only “lease 2024.pdf” and only “Budget.xlsx”"


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What do I pay, in the PDFs?", "PDF files"),
        ("What is in my spreadsheets about travel?", "spreadsheets"),
        ("What is in all my emails from Anna?", "e-mails"),
        ("Was steht in meinen Präsentationen über Katzen?", "presentations"),
        ("¿Qué pone en mis hojas de cálculo sobre viajes?", "spreadsheets"),
        ("Was steht in den Word-Dokumenten zur Miete?", "Word documents"),
        ("What is in the slıdes about rent?", "presentations"),
        ("Which of my PDFs mention the roof?", "PDF files"),
        ("Which contracts of my PDFs mention the roof?", "PDF files"),
        ("What is the total of my spreadsheets for travel?", "spreadsheets"),
        ("Give me an overview of my presentations about cats", "presentations"),
        ("Get the rents out of my spreadsheets for travel", "spreadsheets"),
        ("Was steht innerhalb von meinen PDFs zur Miete?", "PDF files"),
        ("Which one of the spreadsheets lists the rent?", "spreadsheets"),
        ("How many of my emails are from Anna?", "e-mails"),
        ("What do most of the presentations say about cats?", "presentations"),
        ("On which pages of my PDFs is the roof mentioned?", "PDF files"),
        ("Give me a summary of my emails about the roof", "e-mails"),
        ("What do the latest of my spreadsheets say about travel?", "spreadsheets"),
        ("Welche von meinen PDFs handeln vom Dach?", "PDF files"),
        ("Wie viele von den Folien zeigen Katzen?", "presentations"),
        ("Gibt es unter meinen PDFs einen Vertrag mit Berlin?", "PDF files"),
        ("¿Cuáles de mis hojas de cálculo hablan de viajes?", "spreadsheets"),
        ("¿Qué dice cada una de las presentaciones sobre gatos?", "presentations"),
    ],
)
def test_a_type_is_recognised_with_its_article(question: str, kind: str):
    found = read(question)
    assert (found.formats, found.formats_told) == (FORMATS_OF_KIND[kind], f"only {kind}")


@pytest.mark.parametrize(
    "question",
    [
        "How are fonts embedded in PDFs?",
        "Everything except in the spreadsheets",
        "What do spreadsheets cost?",
        "When is the deadline of the presentations for students?",
        "Who pays for the printing of the slides?",
        "Wann ist das Ende von den Präsentationen der Studenten?",
        "¿Cuándo es la fecha de las presentaciones de los estudiantes?",
        "Was liegt unter den Folien im Gewächshaus?",
    ],
)
def test_types_as_a_subject_confine_nothing(question: str):
    assert read(question).formats == ()


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        ("What do the PDFs changed in 2024 say about rent?", "2024-01-01", "2024-12-31"),
        ("Which documents changed since March 2025 mention the roof?", "2025-03-01", ""),
        ("Notes from last week about the roof", "2026-03-23", "2026-03-29"),
        ("What did files modified yesterday say about bread?", "2026-03-30", "2026-03-30"),
        ("What happened in documents before 2020-01-01?", "", "2019-12-31"),
        ("Documents after 3 May 2024 about rent", "2024-05-04", ""),
        ("Files until December 2025 about rent", "", "2025-12-31"),
        ("Was steht in den Dateien von letzter Woche über Miete?", "2026-03-23", "2026-03-29"),
        ("Dokumente seit 15.02.2025 zur Miete", "2025-02-15", ""),
        ("¿Qué dicen los documentos modificados en 2024 sobre el alquiler?", "2024-01-01", "2024-12-31"),
        ("archivos desde marzo de 2025 sobre gatos", "2025-03-01", ""),
        ("PDFs de los últimos 3 meses sobre gatos", "2025-12-31", "2026-03-31"),
        ("What do files changed in the last week and the roof say?", "2026-03-24", "2026-03-31"),
        ("Files changed yesterday after lunch on bread", "2026-03-30", "2026-03-30"),
        ("What do the files until 9999-12-31 say about the rent?", "", "9999-12-31"),
        ("What happened in documents since 0001-01-01?", "0001-01-01", ""),
        ("What do files changed in March last year say about rent?", "2025-03-01", "2025-03-31"),
        ("What do files changed in March of last year say about rent?", "2025-03-01", "2025-03-31"),
        ("What do files updated since May last year say about rent?", "2025-05-01", ""),
        ("Was sagen Dateien geändert im März letzten Jahres zur Miete?", "2025-03-01", "2025-03-31"),
        ("Archivos modificados en marzo del año pasado sobre gatos", "2025-03-01", "2025-03-31"),
        ("What do files changed from 2024 onwards say about rent?", "2024-01-01", ""),
        ("What do files changed from 2024 on say about rent?", "2024-01-01", ""),
        ("What do files changed since 2024 until now say about rent?", "2024-01-01", ""),
        ("Was steht zur Miete in Dateien geändert von 2024 an?", "2024-01-01", ""),
        ("Archivos modificados de 2024 en adelante sobre gatos", "2024-01-01", ""),
        ("What do files changed from 2024 on taxes say?", "2024-01-01", "2024-12-31"),
        ("FILES CHANGED İN 2024 ABOUT RENT", "2024-01-01", "2024-12-31"),
        ("What do files sınce 3 May 2024 say about rent?", "2024-05-03", ""),
    ],
)
def test_a_date_of_files_is_recognised(question: str, since: str, until: str):
    found = read(question)
    assert (found.changed_since, found.changed_until) == (since, until)
    assert found.dates_told.split()[0] == "changed"


@pytest.mark.parametrize(
    "question",
    [
        "Which treaties were signed since March 2025?",
        "What does the law of 2024 say?",
        "What do the files changed from March to June say about rent?",
        "Was sagen Dateien geändert von Januar bis März 2025 zur Miete?",
        "What do documents changed from March 2024 to 2025 say about rent?",
        "What do files changed in 2023 or 2024 say about rent?",
        "What do files changed after March 5 say about rent?",
        "What do files changed since March 5 2024 say about rent?",
        "Qué dicen los archivos modificados en marzo de 2024 a 2025 del alquiler?",
        "documents from March to 5 June 2024 about rent",
        "documents from 31 February 2024 about rent",
        "Which files from the last year of the war speak of bread?",
        "What do the notes from the last day of the trip say?",
        "What do files changed the last week of March say about rent?",
        "What do files changed in the last 2 weeks of March say about rent?",
        "What do files changed in the last week before Christmas say about rent?",
        "What do files changed in the past year or two say about rent?",
        "What do files changed in the last year and a half say about rent?",
        "Dokumente vom letzten Jahr des Krieges, was steht über Berlin?",
        "Dateien von den letzten 2 Tagen vor der Reise, was steht da?",
        "¿Qué dicen los archivos del último año de la guerra?",
        "Archivos modificados el último año y medio sobre pan",
        "Compare documents from 2023 with documents from 2024",
        "What happened in documents after 9999-12-31?",
        "What happened in documents before 0001-01-01?",
        "What do files changed in March of that year say about rent?",
        "What do files changed in March two years ago say about rent?",
        "What do files changed in March next year say about rent?",
        "What do files changed in March '24 say about rent?",
        "What do files changed before 2025.03.05 say about rent?",
        "What do files changed in 2024 or earlier say about rent?",
        "What do files changed before 2024 onwards say about rent?",
        "Was sagen Dateien geändert im März vor zwei Jahren zur Miete?",
        "Archivos modificados en marzo pasado sobre gatos",
        "Archivos modificados en marzo del año 2024 sobre gatos",
        "What do my notes from last year's audit say about VAT?",
        "What do my notes from yesterday’s meeting say about VAT?",
        "What do my notes from the last 3 days' meetings say about VAT?",
    ],
)
def test_dates_that_are_not_one_of_files_confine_nothing(question: str):
    found = read(question)
    assert (found.changed_since, found.changed_until) == ("", "")


@pytest.mark.parametrize(
    ("question", "collection"),
    [
        ("What is in the Rust book collection about threads?", "Rust book"),
        ("In der Sammlung Rust, was ist ein Mutex?", "Rust"),
        ("In the collection “Rust”, what is a mutex?", "Rust"),
        ("How do I learn Rust?", None),
        ("What is in my documents?", None),
        ("Compare the Rust collection with the Documents collection", None),
    ],
)
def test_a_collection_is_recognised_beside_its_word(question: str, collection: str | None):
    assert read(question).collection == collection


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What do PDFs saved in 2024 say about rent?", "What do PDFs say about rent?"),
        ("Was steht im Ordner Verträge über Haustiere?", "Was steht über Haustiere?"),
        ("In der Sammlung Rust, was ist ein Mutex?", "was ist ein Mutex?"),
        ("Summarise Budget.xlsx", "Summarise Budget.xlsx"),
        ("What is a mutex?", "What is a mutex?"),
        ("Which of my PDFs mention the roof?", "Which mention the roof?"),
    ],
)
def test_what_says_where_to_look_is_not_searched_for_unless_nothing_else_is_asked(question: str, text: str):
    assert read(question).text == text


@pytest.mark.parametrize(
    "question",
    [
        "",
        "?",
        "“",
        "in the file",
        "(((",
        "in the file " + "x" * 5000,
        "PDFs from 9999-99-99",
        "What is in the file ... ?",
        "What was in the document [ ] . . . ?",
        "Le nom a changé de document\u202f?\u202f»",
        "What is in the document \u2009 ?",
        "What is in the document \u2003 ?",
        "a.b" * 30_000,
        "押金是多少" * 20_000,
        "押金.pdf里" * 20_000,
        "押金" * 20_000 + ".pdf里",
        "存" * 20_000 + "存存.pdf里" * 100,
        "files changed in 2024 on and vor " * 3000,
        "what about rent in the pdfs and " * 3000,
        "Sort these: " + " ".join(f"lease {number}.pdf" for number in range(3000)),
    ],
)
def test_any_text_can_be_read(question: str):
    assert read(question).paths == ()


@pytest.mark.parametrize(
    "question",
    [
        "How do I file a complaint?",
        "How do I document the process of hiring?",
        "What is a file format?",
        "What is the file format of the report?",
        "Where does the file system keep its tables?",
        "What is the directory structure of the project?",
        "What is the folder structure of the project?",
        "What did the documents of 1945 decide?",
        "Which notes in May fell due?",
        "Which notes from the meeting in May fell due?",
        "Why are files in March slow?",
        "What do documents since 1945 say of Berlin?",
        "Show the art collection of the Louvre",
        "What hangs in the Art collection of the Louvre?",
        "Do not search in the PDFs for the rent",
        "Please don't look in my spreadsheets for travel",
        "Never mind what is in the folder Structure about rent",
        "I want nothing but emails, not what is in the spreadsheets, about rent",
        "Wie reiche ich eine Datei ein?",
        "Wie kann ich die Datei öffnen?",
        "Was ist das Datei Format?",
        "Was steht in den Dokumenten von 2020?",
        "Welche Notizen im Mai waren fällig?",
        "Suche nicht in den PDFs nach der Miete",
        "Suche in den PDFs bitte nicht nach der Miete",
        "Ich will keine Treffer in meinen Präsentationen über Katzen",
        "Was zeigt die Art Sammlung des Louvre?",
        "¿Cómo archivo una queja?",
        "¿Qué es el archivo texto?",
        "¿Qué dicen los documentos de 1945?",
        "¿Qué notas en mayo vencieron?",
        "No busques en los archivos PDF el alquiler",
        "Busca el alquiler sin mirar en mis hojas de cálculo",
        "¿Qué hay en la colección Arte del Museo?",
    ],
)
def test_words_that_only_look_like_a_place_confine_nothing(question: str):
    assert read(question) == Recognised(question)


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("What is in the file format.pdf about rent?", "only “format.pdf”"),
        ("What is in the file “system” about rent?", "only “system.md”"),
        ("What does the folder “Structure” say about rent?", "only the folder “Structure”"),
        ("What is in the folder called tax about rent?", "only the folder “tax”"),
        ("I could not find it. What is in the file notes.md about rent?", "only “notes.md”"),
        ("Was steht in der Datei “öffnen” über Miete?", "only “Öffnen.md”"),
    ],
)
def test_quotes_an_ending_or_called_make_any_word_a_name(question: str, told: str):
    assert read(question).paths_told == told
