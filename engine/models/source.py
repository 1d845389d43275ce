"""Sources: files and folders of the hub, parsed from the links and names that users give."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from engine.errors import BadRequest

MAIN = "main"
# Its links are always accepted, because other hubs are mirrors of it.
_HUGGING_FACE = ("https://huggingface.co", "https://www.huggingface.co", "https://hf.co")
# Paths of the hub that look like owners, but are pages.
_NO_OWNERS = frozenset({"api", "blog", "collections", "datasets", "docs", "models", "papers", "settings", "spaces"})
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+() -]*")
_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_FORMS = "Paste its link, or name it as OWNER/NAME or OWNER/NAME/FILE.gguf."


@dataclass(frozen=True, slots=True)
class Folder:
    """A repository of the hub, or a folder in it: "Qwen/Qwen3-8B-GGUF"."""

    repo: str
    inside: str = ""
    revision: str = MAIN

    def __str__(self) -> str:
        return "/".join(part for part in (_rooted(self.repo, self.revision), self.inside) if part)

    def holding(self, file: str) -> Source:
        """Returns a file of the repository by its path. Raises BadRequest for a path that we cannot store."""
        if not _are_names(*file.split("/")):
            raise _names_nothing(file)
        return Source(self.repo, file, self.revision)


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the hub: "Qwen/Qwen3-8B-GGUF" and "Qwen3-8B-Q4_K_M.gguf". For a split model it is the first file."""

    repo: str
    file: str
    revision: str = MAIN

    @classmethod
    def parse(cls, text: str) -> Source:
        """Parses OWNER/NAME/FILE.gguf, where the file may be in a folder; OWNER/NAME@REVISION/FILE.gguf has a revision.

        Raises:
            BadRequest: It is not of that form.
        """
        owner, name, *inside = text.split("/") if text.count("/") > 1 else ("", "", text)
        name, _, revision = name.partition("@")
        revision = unquote(revision) or MAIN
        if not _are_names(owner, name, *inside, *revision.split("/")) or not _is_model(text):
            raise _names_nothing(text)
        return cls(f"{owner}/{name}", "/".join((*inside[:-1], pieces_of(inside[-1])[0])), revision)

    def __str__(self) -> str:
        return f"{self.repository}/{self.file}"

    @property
    def repository(self) -> str:
        return _rooted(self.repo, self.revision)

    @property
    def pieces(self) -> tuple[Source, ...]:
        """Its files: itself, or all files of a split model."""
        folder, slash, name = self.file.rpartition("/")
        return tuple(replace(self, file=f"{folder}{slash}{piece}") for piece in pieces_of(name))

    def pieces_below(self, folder: Path) -> list[Path]:
        """Returns where all of its files are stored below a folder."""
        return [piece.below(folder) for piece in self.pieces]

    def below(self, folder: Path) -> Path:
        """Returns where it is stored below a folder; with the owner, because file names are not unique."""
        return folder / self.repository / self.file


def meant_by(text: str, hub: str) -> Source | Folder:
    """Parses what a user names on the hub at the address `hub`: a link, OWNER/NAME, or OWNER/NAME/FILE.gguf.

    Raises:
        BadRequest: It has none of these forms, or is a link to another site.
    """
    text = text.strip()
    link = _link_within(text, hub)
    if link is not None:
        return _linked(text, link)
    bare = text.rstrip("/")
    return _repository(text, bare.split("/")) if bare.count("/") == 1 else Source.parse(bare)


def pieces_of(name: str) -> tuple[str, ...]:
    """Returns the names of all files of a model by the name of one: this one, or all of `…-00001-of-00003.gguf`."""
    match = _SPLIT.search(name)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        return (name,)
    stem, total = name[: match.start()], int(match[2])
    return tuple(f"{stem}-{number:05}-of-{total:05}.gguf" for number in range(1, total + 1))


def _link_within(text: str, hub: str) -> SplitResult | None:
    """Returns the path and query of a link below the hub's address; None if it is not a link."""
    has_scheme = "://" in text
    there = _split(text if has_scheme else f"https://{text}")
    for base in map(_split, (hub, *_HUGGING_FACE)):
        path = base.path.rstrip("/") + "/"
        if _host(base) == _host(there) and f"{there.path}/".startswith(path):
            return there._replace(path=there.path[len(path) :])
    if has_scheme:
        raise BadRequest(
            f"Models are downloaded from {_host(_split(hub))}, and this link leads elsewhere: {_host(there) or text}.",
            "Look for the model there, or download the file in a browser and open it.",
        )
    return None


def _linked(text: str, link: SplitResult) -> Source | Folder:
    """Returns the file or folder that a page shows, or its repository."""
    steps = [unquote(step) for step in link.path.split("/") if step]
    repository = _repository(text, steps[:2])
    view, revision, inside = "".join(steps[2:3]), "".join(steps[3:4]) or MAIN, steps[4:]
    if shown := parse_qs(link.query).get("show_file_info"):
        inside = shown[0].split("/")
    if not _are_names(*inside, *revision.split("/")):
        raise _names_nothing(text)
    if inside and _is_model(inside[-1]):
        return Source.parse("/".join((_rooted(repository.repo, revision), *inside)))
    return replace(repository, inside="/".join(inside), revision=revision) if view == "tree" else repository


def _repository(text: str, steps: list[str]) -> Folder:
    if len(steps) != 2 or steps[0] in _NO_OWNERS:
        raise _names_nothing(text)
    owner, name = steps
    # Other programs append the quantisation to the name: OWNER/NAME:Q4_K_M.
    name, _, revision = name.partition(":")[0].partition("@")
    revision = unquote(revision) or MAIN
    if not _are_names(owner, name, *revision.split("/")):
        raise _names_nothing(text)
    return Folder(f"{owner}/{name}", revision=revision)


def _rooted(repo: str, revision: str) -> str:
    return repo if revision == MAIN else f"{repo}@{quote(revision, safe='')}"


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _host(link: SplitResult) -> str:
    return link.netloc.rpartition("@")[2].casefold()


def _are_names(*names: str) -> bool:
    return all(map(_NAME.fullmatch, names))


def _is_model(text: str) -> bool:
    return text.casefold().endswith(".gguf")


def _names_nothing(text: str) -> BadRequest:
    return BadRequest(f"{text!r} does not name a model on the hub.", _FORMS)
