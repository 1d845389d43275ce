"""Tests for engine.retrieval.asks_whole."""

from __future__ import annotations

import pytest

from engine.retrieval.asks_whole import asks_whole

NAME = "lease 2024.pdf"


@pytest.mark.parametrize(
    "question",
    [
        "Summarise",
        "Summarize this document.",
        "Please summarise lease 2024.pdf",
        "Summarise the file “lease 2024.pdf” in five sentences",
        "Can you give me a short summary of the lease?",
        "Give me a summary of this contract in 3 bullet points, please",
        "Write a one paragraph summary of the document for my landlord",
        "Summarise this rental agreement in plain English",
        "I signed it years ago. Summarise the lease 2024.",
        "Summarise the lease in German",
        "Sum it up",
        "TL;DR",
        "What are the key points?",
        "What are the five most important points of this document?",
        "List the main takeaways",
        "Give me an overview",
        "Outline the document",
        "What's this about?",
        "What is lease 2024.pdf about?",
        "What does this document say?",
        "What is in this file?",
        "What's the gist of it?",
        "Give me a summary of each chapter",
        "Explain this document to me",
        "Summarise the whole thing again, but shorter",
        "Summarise it in two sentences for a ten year old.",
        "List all key points",
        "Summarise the lease, focusing on risks",
        "Summarise lease 2024.pdf with a focus on the deposit",
        "Summarise the contract focusing on the parties",
        "Summarize this document, paying special attention to deadlines and penalties.",
        "Give me a short summary of the contract, with emphasis on what I owe",
        "Summarise the lease in five sentences and focus mainly on costs",
        "Summarise the lease, especially the duties of the tenant, in German",
        "What are the key points, focusing on rent?",
        "Fasse den Vertrag mit Schwerpunkt auf Risiken zusammen",
        "Fasse das Dokument zusammen, insbesondere die Fristen",
        "Resume el contrato, centrándote en los riesgos",
        "Résume ce contrat en mettant l'accent sur les risques",
        "总结这份合同，重点关注风险",
        "总结这份合同，重点是违约责任",
        "总结这份合同，重点内容是风险和成本",
        "Fasse das Dokument zusammen",
        "Fass mir den Mietvertrag bitte kurz zusammen.",
        "Kannst du lease 2024.pdf in drei Sätzen zusammenfassen?",
        "Gib mir eine kurze Zusammenfassung des Vertrags",
        "Was sind die wichtigsten Punkte?",
        "Worum geht es in diesem Dokument?",
        "Gib mir einen Überblick über den Text",
        "Nenne die Kernaussagen",
        "Fasse den Bericht auf einer Seite zusammen",
        "Um was geht's hier?",
        "Resume este documento",
        "Hazme un resumen del contrato, por favor",
        "¿Cuáles son los puntos clave?",
        "¿De qué trata este documento?",
        "Resúmeme el texto en dos frases",
        "Résume ce document",
        "Peux-tu me faire un résumé du contrat ?",
        "Quels sont les points principaux ?",
        "De quoi parle ce texte ?",
        "Fais-moi un résumé en 5 points",
        "总结这个文件",
        "请帮我总结一下lease 2024.pdf",
        "这份合同讲了什么？",
        "用中文概括全文",
        "列出主要要点",
        "这本书讲的是什么",
        "总结这份文件的重点",
        "这份文件的重点是什么？",
        "這份文件的重點有哪些？",
        "总结《lease 2024.pdf》",
    ],
)
def test_who_asks_for_the_gist_asks_for_the_whole(question: str):
    assert asks_whole(question, NAME) == "gist"


@pytest.mark.parametrize(
    "question",
    [
        "List all deadlines",
        "List every person who is named in this document",
        "Give me all dates",
        "Find all amounts of money in lease 2024.pdf",
        "Make a table: name each party",
        "Nenne alle Fristen",
        "Liste mir bitte sämtliche Kosten auf",
        "Enumera todas las fechas",
        "Liste toutes les dates",
        "列出所有日期",
    ],
)
def test_who_asks_for_all_of_a_kind_asks_for_the_whole(question: str):
    assert asks_whole(question, NAME) == "each"


@pytest.mark.parametrize(
    "question",
    [
        "How much is the rent?",
        "Summarise the clause about rent",
        "Summarise what lease 2024.pdf says about the deposit",
        "Summarise section 3 of this document",
        "Summarise this chapter",
        "Summarise page 4",
        "Summarise the clause about rent, focusing on risks",
        "Summarise the lease, focusing on section 3",
        "Summarise the lease, especially the part about rent",
        "How much is the rent, focusing on the first year?",
        "How do I focus on risks?",
        "Summarise the focus on risks",
        "Summarise stress management",
        "Fasse den Abschnitt über die Miete zusammen, insbesondere die Fristen",
        "总结关于租金的条款，重点关注风险",
        "Summarise the first part of the document",
        "Summarise this about rent",
        "Give me an overview of the payment terms",
        "What are the key points of clause 7?",
        "What is this clause about?",
        "What is the outline of the building?",
        "How do I write a summary?",
        "What does the summary say about rent?",
        "Where is the executive summary?",
        "Tell me all about the deposit",
        "Explain this",
        "Describe the heating in this document",
        "Do not summarise the document",
        "Summarise the document. How much is the rent?",
        "Is it summarised anywhere?",
        "What is the law about?",
        "Who is the landlord, and what is he paid?",
        "What does lease 2024.pdf say about pets?",
        "Is the deposit paid in full, and who holds it?",
        "Fasse den Abschnitt über die Miete zusammen",
        "Fasse Kapitel 2 zusammen",
        "Worum geht es in Paragraf 5?",
        "Was steht in der Klausel zur Kaution?",
        "Gib mir einen Überblick über die Kosten",
        "Resume la cláusula del alquiler",
        "¿De qué trata el capítulo 3?",
        "Résume la clause sur le loyer",
        "De quoi parle le chapitre 2 ?",
        "总结关于租金的条款",
        "租金条款的重点是什么？",
        "重点条款是什么？",
        "租金是多少？",
        "",
    ],
)
def test_who_asks_for_a_part_does_not_ask_for_the_whole(question: str):
    assert asks_whole(question, NAME) is None


@pytest.mark.parametrize(
    ("name", "question", "wanted"),
    [
        # A name may hold any word, and is none of the question's.
        ("summary.pdf", "What does summary.pdf say about rent?", None),
        ("summary.pdf", "Give me a summary", "gist"),
        ("Section 3.docx", "Summarise Section 3.docx", "gist"),
        ("Section 3.docx", "Summarise “Section 3”", "gist"),
        ("annual-report-2024.pdf", "Summarise the annual report", "gist"),
        ("annual-report-2024.pdf", "Summarise the annual accounts", None),
        ("报告.pdf", "总结报告.pdf", "gist"),
        (".md", "Summarise it", "gist"),
        ("a(b.txt", "Summarise a(b.txt", "gist"),
    ],
)
def test_the_name_of_a_document_stands_for_it(name: str, question: str, wanted: str | None):
    assert asks_whole(question, name) == wanted


def test_a_long_question_is_looked_through_in_no_time():
    # A pattern that tries all ways to split it would not end.
    for part in ("summarise ", "in a ", "what is ", "list me ", "a b c ", "“", "总结"):
        asks_whole(part * 4000, NAME)
