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
    ],
)
def test_a_type_is_recognised_with_its_article(question: str, kind: str):
    found = read(question)
    assert (found.formats, found.formats_told) == (FORMATS_OF_KIND[kind], f"only {kind}")


@pytest.mark.parametrize(
    "question",
    ["How are fonts embedded in PDFs?", "Everything except in the spreadsheets", "What do spreadsheets cost?"],
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
        "a.b" * 30_000,
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
