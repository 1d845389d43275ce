"""Tests for engine.models.source."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import BadRequest
from engine.models.source import Folder, Source, meant_by, pieces_of

HUB = "https://huggingface.co"
FILE = Source("o/n", "m.gguf")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("o/n/m.gguf", FILE),
        (" o/n/Q4/m.gguf\n", Source("o/n", "Q4/m.gguf")),
        ("o/n@v2/m.gguf", Source("o/n", "m.gguf", "v2")),
        ("o/n", Folder("o/n")),
        ("o/n/", Folder("o/n")),
        ("o/n@v2", Folder("o/n", revision="v2")),
        ("o/n:Q4_K_M", Folder("o/n")),
        ("https://huggingface.co/o/n", Folder("o/n")),
        ("HTTPS://HuggingFace.co/o/n/", Folder("o/n")),
        ("huggingface.co/o/n", Folder("o/n")),
        ("hf.co/o/n:Q4_K_M", Folder("o/n")),
        ("https://huggingface.co/o/n/resolve/main/m.gguf", FILE),
        ("https://huggingface.co/o/n/resolve/main/m.gguf?download=true", FILE),
        ("https://huggingface.co/o/n/blob/main/m.gguf#top", FILE),
        ("https://huggingface.co/o/n/blob/main/Q4/m%20b.gguf", Source("o/n", "Q4/m b.gguf")),
        ("https://huggingface.co/o/n/blob/refs%2Fpr%2F1/m.gguf", Source("o/n", "m.gguf", "refs/pr/1")),
        ("https://huggingface.co/o/n?show_file_info=m.gguf", FILE),
        ("https://huggingface.co/o/n/tree/v2?show_file_info=Q4%2Fm.gguf", Source("o/n", "Q4/m.gguf", "v2")),
        ("https://huggingface.co/o/n/tree/main", Folder("o/n")),
        ("https://huggingface.co/o/n/tree", Folder("o/n")),
        ("https://huggingface.co/o/n/tree/v2/Q4", Folder("o/n", "Q4", "v2")),
        ("https://huggingface.co/o/n/blob/main/README.md", Folder("o/n")),
        ("https://huggingface.co/o/n/discussions/3", Folder("o/n")),
    ],
)
def test_a_link_or_a_name_means_a_file_or_a_folder(text: str, meant: Source | Folder):
    assert meant_by(text, HUB) == meant


def test_a_mirror_has_links_of_its_own_and_those_of_what_it_mirrors():
    mirror = "http://localhost:8080/hub/"
    for text in ("http://localhost:8080/hub/o/n/blob/main/m.gguf", "https://huggingface.co/o/n/blob/main/m.gguf"):
        assert meant_by(text, mirror) == FILE
    with pytest.raises(BadRequest, match="downloaded from localhost:8080"):
        meant_by("http://localhost:8080/o/n/blob/main/m.gguf", mirror)


@pytest.mark.parametrize(
    "link",
    ["https://example.org/m.gguf", "https://huggingface.co.example.org/o/n", "file:///m.gguf", "https://[::1/o/n"],
)
def test_a_link_that_leads_elsewhere_is_told_as_one(link: str):
    with pytest.raises(BadRequest, match=r"downloaded from huggingface\.co, and this link leads elsewhere") as error:
        meant_by(link, HUB)
    assert "browser" in error.value.way_out


@pytest.mark.parametrize(
    "text",
    ["", "m.gguf", "a nice one", "owner/name/m.bin", "../name/m.gguf", "../name", "o/n/../../m.gguf", "o//m.gguf",
     "/o/n/m.gguf", "o/n/a\\m.gguf", "o/n@../m.gguf", "o/n@..", "https://huggingface.co", "https://huggingface.co/o",
     "https://huggingface.co/datasets/o/n", "https://huggingface.co/o/n/blob/main/..%2f..%2fm.gguf",
     "https://huggingface.co/o/n/blob/..%2f../m.gguf", "https://huggingface.co/o/%2e%2e/blob/main/m.gguf"],
)  # fmt: skip
def test_what_names_nothing_of_a_hub_is_refused(text: str):
    with pytest.raises(BadRequest, match="does not name a model on the hub") as error:
        meant_by(text, HUB)
    assert "OWNER/NAME" in error.value.way_out


@pytest.mark.parametrize("source", [FILE, Source("o/n", "Q4/m.gguf", "v2"), Source("o/n", "m.gguf", "refs/pr/1")])
def test_a_source_is_found_again_by_its_name_and_lies_in_a_folder_of_its_own(source: Source):
    assert Source.parse(str(source)) == source
    place = source.below(Path("/models"))
    assert Source.parse(place.relative_to("/models").as_posix()) == source


def test_each_file_of_a_model_in_several_means_the_model():
    names = tuple(f"m-0000{number}-of-00003.gguf" for number in (1, 2, 3))
    assert pieces_of(names[1]) == names
    source = meant_by(f"o/n/Q8/{names[2]}", HUB)
    assert source == Source("o/n", f"Q8/{names[0]}")
    assert [piece.file for piece in source.pieces] == [f"Q8/{name}" for name in names]
    assert FILE.pieces == (FILE,)
    assert pieces_of("m-00004-of-00003.gguf") == ("m-00004-of-00003.gguf",)
