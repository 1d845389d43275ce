"""Tests for engine.cli.words and engine.cli.documents: what is told of a job."""

from __future__ import annotations

import io

from engine.cli import documents, words
from engine.cli.output import Output
from engine.events import IndexFinished

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


def test_scripts_are_told_as_well() -> None:
    assert documents.of_index(FINISHED)["documents"] == {
        "indexed": 2,
        "unchanged": 1,
        "in_part": [{"path": "/d/half.pdf", "reason": "1 of its 2 pages is a picture and was left out."}],
        "skipped": [{"path": "/d/scan.pdf", "reason": "The pages are pictures without text."}],
        "failed": [{"path": "/d/broken.pdf", "reason": "The PDF is damaged."}],
    }
