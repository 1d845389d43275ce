"""Tests for engine.cli.words and engine.cli.documents: what is told of a job."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from engine.cli import documents, words
from engine.cli.output import Output
from engine.core import Alternative, Answer, Citation, FinishReason, Refresh, Scope
from engine.errors import RagdollError
from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, IndexFinished
from engine.metrics import Timings
from tests.helpers.passages import passage

TOOK = Timings(0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)
FINISHED = IndexFinished(
    indexed=2,
    unchanged=1,
    removed=0,
    skipped=(("/d/scan.pdf", "The pages are pictures without text."),),
    failed=(("/d/broken.pdf", "The PDF is damaged."),),
    chunks=9,
    seconds=1.5,
    in_part=(("/d/half.pdf", "1 of its 2 pages is a picture and was left out."),),
)


def test_what_was_left_out_of_an_indexed_file_is_told() -> None:
    stream = io.BytesIO()
    words.tell_index(FINISHED, Output(stream, is_json=False))

    assert stream.getvalue().decode().splitlines() == [
        "2 documents indexed (9 chunks), 1 unchanged, in 1.5 s.",
        "  indexed in part: /d/half.pdf: 1 of its 2 pages is a picture and was left out.",
        "  skipped: /d/scan.pdf: The pages are pictures without text.",
        "  failed: /d/broken.pdf: The PDF is damaged.",
    ]


def test_one_of_a_kind_is_told_as_one() -> None:
    stream = io.BytesIO()
    words.tell_index(
        replace(FINISHED, indexed=1, chunks=1, skipped=(), failed=(), in_part=()), Output(stream, is_json=False)
    )

    assert stream.getvalue().decode() == "1 document indexed (1 chunk), 1 unchanged, in 1.5 s.\n"


def test_what_was_removed_is_told_where_something_was() -> None:
    stream = io.BytesIO()
    words.tell_index(
        replace(FINISHED, indexed=0, chunks=0, removed=3, skipped=(), failed=(), in_part=()),
        Output(stream, is_json=False),
    )

    assert stream.getvalue().decode() == "0 documents indexed (0 chunks), 1 unchanged, 3 removed, in 1.5 s.\n"


def test_scripts_are_told_as_well() -> None:
    assert documents.of_index(FINISHED)["documents"] == {
        "indexed": 2,
        "unchanged": 1,
        "removed": 0,
        "in_part": [{"path": "/d/half.pdf", "reason": "1 of its 2 pages is a picture and was left out."}],
        "skipped": [{"path": "/d/scan.pdf", "reason": "The pages are pictures without text."}],
        "failed": [{"path": "/d/broken.pdf", "reason": "The PDF is damaged."}],
    }


def test_each_file_is_told_with_what_it_says_and_where() -> None:
    cited = replace(passage("It ends in May."), place="page 3")
    answer = Answer("It ends in May. [1]", (), (Citation("[1]", 0, 16),), (cited,), Scope(1, 9, 1), "tiny", "stop")
    stream = io.BytesIO()
    out = Output(stream, is_json=False)
    words.tell_file_answer("/d/a.pdf", AnswerFinished("1", answer, TOOK), out)
    words.tell_file_answer("/d/b.pdf", AnswerFinished("2", replace(answer, text=" ", citations=()), TOOK), out)
    words.tell_file_answer("/d/c.pdf", AnswerFailed("3", RagdollError("It was removed.", "Add it again.")), out)
    words.tell_file_answer("/d/d.pdf", AnswerCancelled("4"), out)

    assert stream.getvalue().decode().split("\n\n") == [
        "/d/a.pdf\n    It ends in May. [1]\n    [1] page 3",
        "/d/b.pdf\n    Nothing found in this file.",
        "/d/c.pdf\n    It was removed. Add it again.",
        "/d/d.pdf\n    The question was cancelled.",
        "",
    ]


def test_all_answers_of_a_file_are_told_each_with_its_places_and_whether_it_breaks_off() -> None:
    passages = tuple(replace(passage(text), place=f"page {page}") for page, text in ((3, "In May."), (7, "In June.")))
    others = (Alternative("In June [2].", (Citation("[2]", 1, 8),), "stop"), Alternative("In", (), "length"))
    answer = Answer(
        "In May [1].", (), (Citation("[1]", 0, 7),), passages, Scope(2, 2, 1), "tiny", "stop", alternatives=others
    )
    stream = io.BytesIO()
    words.tell_file_answer("/d/a.pdf", AnswerFinished("1", answer, TOOK), Output(stream, is_json=False))

    assert stream.getvalue().decode() == (
        "/d/a.pdf\n    In May [1].\n    [1] page 3\n"
        "    --- answer 2 ---\n    In June [2].\n    [2] page 7\n"
        "    --- answer 3 ---\n    In\n"
        "    The answer reached its length limit: --max-tokens allows a longer one.\n\n"
    )


def test_all_answers_are_told_and_the_sources_of_each() -> None:
    passages = (passage("One."), passage("Two.", document_id=2))
    other = Alternative("As the second says [2].", (Citation("[2]", 1, 19),), "stop")
    answer = Answer(
        text="As the first says [1].",
        quotes=(),
        citations=(Citation("[1]", 0, 18),),
        passages=passages,
        scope=Scope(2, 2, 2),
        model="tiny",
        finish_reason="stop",
        alternatives=(other,),
    )
    end = AnswerFinished("q", answer, TOOK)
    stream = io.BytesIO()
    words.tell_answer(end, Output(stream, is_json=False))

    told = stream.getvalue().decode()
    assert "--- answer 2 ---\nAs the second says [2].\n" in told
    assert "[1] /docs/1.txt" in told
    assert "[2] /docs/2.txt" in told
    assert "length limit" not in told
    assert documents.of_answer(end)["alternatives"] == ["As the second says [2]."]


@pytest.mark.parametrize(("first", "second"), [("length", "stop"), ("stop", "length")])
def test_an_answer_that_breaks_off_says_so(first: FinishReason, second: FinishReason) -> None:
    other = Alternative("And so", (), second)
    answer = Answer("It is", (), (), (passage("One."),), Scope(1, 1, 1), "tiny", first, alternatives=(other,))
    end = AnswerFinished("q", answer, TOOK)
    stream = io.BytesIO()
    words.tell_answer(end, Output(stream, is_json=False))

    assert "reached its length limit: --max-tokens" in stream.getvalue().decode()
    assert documents.of_answer(end)["finish_reason"] == first


@pytest.mark.parametrize(("text", "told"), [("Hello.", "Hello."), (" ", "The model wrote nothing.")])
def test_an_answer_of_the_model_alone_is_told_as_such(text: str, told: str) -> None:
    end = AnswerFinished("q", Answer(text, (), (), (), Scope(0, 0, 0), "tiny", "stop"), TOOK)
    stream = io.BytesIO()
    words.tell_answer(end, Output(stream, is_json=False), searched=False)
    assert stream.getvalue().decode() == f"{told}\n\nFrom the model alone: your files were not searched.\n"


def test_passages_that_came_while_an_answer_was_written_are_told_of() -> None:
    passages = (passage("One."), passage("Two.", document_id=2), passage("Three.", document_id=3))
    answer = Answer(
        text="As the first says [1]. And the third [3].",
        quotes=(),
        citations=(Citation("[1]", 0, 18), Citation("[3]", 2, 37)),
        passages=passages,
        scope=Scope(3, 4, 3),
        model="tiny",
        finish_reason="stop",
        refreshes=(Refresh(22, 1, 1), Refresh(22, 2, 1)),
    )
    timings = Timings(0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, refreshes=2, refresh_retrieval_s=0.8, refresh_hidden_s=0.6)
    end = AnswerFinished("q", answer, timings)
    stream = io.BytesIO()
    words.tell_answer(end, Output(stream, is_json=False))

    told = stream.getvalue().decode()
    assert "[3] /docs/3.txt" in told
    again = "More came 2 times while it was written: 2 of these passages (searching took"
    assert told.splitlines()[-1] == f"{again} 0.8 s, 75% of it while writing went on)."
    document = documents.of_answer(end)
    assert document["refreshes"][1] == {"offset": 22, "first_passage": 2, "num_passages": 1}
    assert document["timeline"]["refresh_hidden_s"] == 0.6


@pytest.mark.parametrize(
    ("used", "told"), [(2, "Read all of 1.txt."), (1, "Read 1 of 2 passages of 1.txt.")], ids=["all", "some"]
)
def test_how_much_of_a_document_was_read_through_is_told(used: int, told: str) -> None:
    scope = Scope(used, 2, 1, reads_through=True)
    answer = Answer("Short.", (), (), (passage("One."), passage("Two.", start=9))[:used], scope, "tiny", "stop")
    stream = io.BytesIO()
    words.tell_answer(AnswerFinished("q", answer, TOOK), Output(stream, is_json=False))

    assert stream.getvalue().decode().splitlines()[-1] == told
