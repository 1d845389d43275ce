"""LangChain and Chroma indexing the same files, used as documented; run in an environment of its own.

    python -m tests.bench.indexing_peers WHAT TASK.json

WHAT is `default` (HuggingFaceEmbeddings at its defaults) or `tuned` (with our embedder). LangChain loads and splits the
files; what it then embeds and stores are our chunks of them, so that all sides embed the same texts. Libraries and
weights are loaded before the clock starts. Prints one JSON object as the last line.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings

CHUNK_CHARACTERS, OVERLAP_CHARACTERS = 1000, 200
WARM_UP = ["A few words to wake the libraries up. " * 20] * 8


class OurEmbeddings(Embeddings):
    """Our embedder in the configuration that its self-test chose."""

    def __init__(self, cache: str) -> None:
        from engine.config import EmbedderSettings
        from engine.embedder import Embedder, resolve
        from engine.memory.ledger import Ledger
        from tests.bench.warm_embedder import warm_at_once

        settings = EmbedderSettings()
        self._embedder = Embedder(resolve(settings), settings, Ledger(), cache=Path(cache))
        with warm_at_once():
            self._embedder.embed_documents(WARM_UP[:1])

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._embedder.embed_documents(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        vector: list[float] = self._embedder.embed_questions([text])[0].tolist()
        return vector


def default_embeddings(model: str) -> Embeddings:
    from langchain_huggingface import HuggingFaceEmbeddings

    made: Embeddings = HuggingFaceEmbeddings(model_name=model, model_kwargs={"device": "cpu"})
    return made


def load_and_split(folder: str) -> int:
    """Loads and splits the files; returns the number of characters loaded."""
    from langchain_community.document_loaders import DirectoryLoader, PyPDFLoader, TextLoader
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    loaders = [
        DirectoryLoader(folder, glob="**/*.pdf", loader_cls=PyPDFLoader),
        *(DirectoryLoader(folder, glob=glob, loader_cls=TextLoader) for glob in ("**/*.md", "**/*.txt")),
    ]
    documents = [document for loader in loaders for document in loader.load()]
    RecursiveCharacterTextSplitter(chunk_size=CHUNK_CHARACTERS, chunk_overlap=OVERLAP_CHARACTERS).split_documents(
        documents
    )
    return sum(len(document.page_content) for document in documents)


def main(what: str, task_file: Path) -> None:
    warnings.simplefilter("ignore")
    task = json.loads(task_file.read_text(encoding="utf-8"))
    embeddings = OurEmbeddings(task["cache"]) if what == "tuned" else default_embeddings(task["model"])
    embeddings.embed_documents(WARM_UP)
    with tempfile.TemporaryDirectory() as warm, tempfile.TemporaryDirectory() as folder:
        Chroma.from_texts(texts=WARM_UP[:1], embedding=embeddings, persist_directory=warm)
        begun = time.perf_counter()
        characters = load_and_split(task["folder"])
        loaded = time.perf_counter()
        Chroma.from_texts(texts=task["chunks"], embedding=embeddings, persist_directory=folder)
        stored = time.perf_counter()
    figures = {"seconds": stored - begun, "storing_seconds": stored - loaded, "characters": characters}
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
