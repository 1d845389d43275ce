"""The hub: file lists, and a file from any byte on; each refusal is a sentence and a way out.

Whoever asks is unknown to it: no account, no token. Redirects are followed, and the system's proxies are used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import requests

from engine.errors import BadRequest, DownloadCut, DownloadFailed
from engine.models.hub_search import Repository, Wanted, repositories_in
from engine.models.source import Folder, Source

# So long may a connection take to come about, and be silent.
CONNECT_SECONDS, SILENT_SECONDS = 10.0, 20.0
PIECE_BYTES = 64 * 1024
# Who asks for a longer pause than this is not waited for.
LONGEST_WAIT_SECONDS = 120.0
_SHA256_DIGITS, _GIT_DIGITS = 64, 40
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_KEPT = "What was fetched is kept."
# What goes with models and answers nothing by itself: projectors for pictures, measured weights, models that embed.
_GOES_WITH_MODELS = re.compile(r"mmproj|imatrix|embed|rerank|\bbge\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HubFile:
    """What the hub says of a file. Of small ones it tells git's checksum, of large ones SHA-256."""

    source: Source
    num_bytes: int
    checksum: str

    def new_sum(self) -> Any:
        """What is to be given all of its bytes, and has that checksum then, as hashlib has it."""
        if len(self.checksum) == _SHA256_DIGITS:
            return hashlib.sha256()
        return hashlib.sha1(f"blob {self.num_bytes}\0".encode(), usedforsecurity=False)


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that the hub has, of so many bytes in all of its files."""

    source: Source
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes of a file from `start` on, which is 0 also where another start was asked for and is not given."""

    start: int
    pieces: Iterator[bytes]


class _Unchecked(Exception):
    """A file of which no checksum is told; the message is its name."""


class Hub:
    """One hub by its address."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._name = self._address.partition("://")[2].partition("/")[0].rpartition("@")[2]

    def look_up(self, wanted: Sequence[Source]) -> list[HubFile]:
        """What it has now of files that lie in one folder.

        Raises:
            DownloadFailed: It has no such file, does not give it, or cannot be reached.
        """
        entries = {entry.get("path"): entry for entry in self._entries(wanted[0])}
        for source in wanted:
            if source.file not in entries:
                raise _missing(source, self._name)
        try:
            return [_described(source, entries[source.file]) for source in wanted]
        except _Unchecked as unchecked:
            raise DownloadFailed(
                f"{self._name} publishes no checksum for {unchecked}, so damage could not be detected.",
                "Choose another file, or download it in a browser and open it.",
            ) from unchecked

    def files(self, folder: Folder) -> list[HubFile]:
        """All files in a folder of which it tells a checksum, also in folders inside.

        Raises:
            DownloadFailed: It has no such folder, does not tell, or cannot be reached.
        """
        found = []
        for entry in self._entries(folder):
            # What could not be kept or checked here is not there for us.
            with suppress(BadRequest, _Unchecked):
                found.append(_described(folder.holding(str(entry.get("path"))), entry))
        return found

    def offers(self, folder: Folder) -> list[Offer]:
        """The models in a folder that may write answers, the smallest first; one in several files is one.

        Raises:
            DownloadFailed: It has no such folder or nothing in it, does not tell, or cannot be reached.
        """
        found: dict[str, Offer] = {}
        for entry in self._entries(folder):
            path = str(entry.get("path"))
            if not _GOES_WITH_MODELS.search(path.rpartition("/")[2]):
                with suppress(BadRequest):
                    found[path] = Offer(Source.parse(str(replace(folder, inside=path))), _size_of(entry) or 0)
        offers = [
            Offer(offer.source, sum(found[piece.file].num_bytes for piece in offer.source.pieces))
            for path, offer in found.items()
            # Told of by their first file, where all are there.
            if path == offer.source.file and all(piece.file in found for piece in offer.source.pieces)
        ]
        if not offers:
            raise DownloadFailed(
                f"There is no GGUF file in {folder} on {self._name} that can write answers.",
                "Look there for a repository whose name ends in GGUF.",
            )
        return sorted(offers, key=lambda offer: (offer.num_bytes, offer.source.file))

    def search(self, wanted: Wanted) -> list[Repository]:
        """The repositories with GGUF files that are called like some words, the most downloaded first; never none.

        Raises:
            DownloadFailed: It has none, cannot be searched, or cannot be reached.
        """
        with self._asked(f"{self._address}/api/models?{wanted.query}", wanted) as response:
            entries = _listed(response)
        if entries is None:
            raise self._something_else("a list of models")
        if found := repositories_in(entries, self._address):
            return found
        raise DownloadFailed(f"No GGUF model on {self._name} matches {wanted}.", "Try fewer words, or others.")

    @contextmanager
    def reading(self, wanted: HubFile, start: int) -> Iterator[Body]:
        """The file from a byte on, where the hub can.

        Raises:
            DownloadCut: The connection failed, now or while it is read.
            DownloadFailed: It is not given, or what is given is something else.
        """
        source = wanted.source
        url = f"{self._address}/{source.repo}/resolve/{quote(source.revision, safe='')}/{quote(source.file)}"
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self._asked(url, source, headers) as response:
            begins = start if response.status_code == HTTPStatus.PARTIAL_CONTENT else 0
            if not _is_of(wanted, begins, response.headers):
                raise self._something_else(source.file)
            yield Body(begins, response.iter_content(PIECE_BYTES))

    def _entries(self, wanted: Source | Folder) -> Iterator[Mapping[str, Any]]:
        """What is told of all that is beside a file, or below a folder."""
        inside = wanted.inside if isinstance(wanted, Folder) else wanted.file.rpartition("/")[0]
        url = f"{self._address}/api/models/{wanted.repo}/tree/{quote(wanted.revision, safe='')}"
        url += f"/{quote(inside)}" if inside else ""
        url += "?recursive=true" if isinstance(wanted, Folder) else ""
        while url:
            with self._asked(url, wanted) as response:
                entries, url = _listed(response), response.links.get("next", {}).get("url", "")
            if entries is None:
                raise self._something_else(f"the list of files of {wanted.repo}")
            yield from entries

    @contextmanager
    def _asked(
        self, url: str, wanted: Source | Folder | Wanted, headers: Mapping[str, str] | None = None
    ) -> Generator[requests.Response]:
        # Packed, it could not be gone on with in the middle.
        headers = {"Accept-Encoding": "identity", **(headers or {})}
        times = (CONNECT_SECONDS, SILENT_SECONDS)
        try:
            with (
                _Stranger() as session,
                session.get(url, headers=headers, stream=True, timeout=times, auth=_as_nobody) as response,
            ):
                if not response.ok:
                    raise _refusal(wanted, self._name, response.status_code, _seconds_asked(response.headers))
                yield response
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            if isinstance(error, requests.exceptions.SSLError) and "certificate" in str(error).casefold():
                raise DownloadFailed(
                    f"The connection to {self._name} cannot be trusted: its certificate is not valid here.",
                    "Check the date of this computer, and whether your network intercepts connections.",
                ) from error
            kept = "" if isinstance(wanted, Wanted) else f" {_KEPT}"
            raise DownloadCut(
                f"{self._name} cannot be reached, or the connection was cut.",
                f"Check that this computer is online, and try again.{kept}",
            ) from error
        except requests.RequestException as error:
            raise DownloadFailed(
                f"{self._name} cannot be contacted: {error}.",
                "Check its address in the settings, under Models (models.hub).",
            ) from error

    def _something_else(self, what: str) -> DownloadFailed:
        return DownloadFailed(
            f"{self._name} sent something other than {what}.",
            "If your network wants you to sign in, do so in a browser; else the file was just changed. Then try again.",
        )


class _Stranger(requests.Session):
    """Asks as nobody also where a redirect leads."""

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        prepared_request.headers.pop("Authorization", None)


def _as_nobody(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Else the user's name and password would be looked for in ~/.netrc."""
    return request


def _listed(response: requests.Response) -> list[Mapping[str, Any]] | None:
    """The files that are told of; None where it is no such list."""
    try:
        entries = response.json()
    except requests.exceptions.JSONDecodeError:
        return None
    is_list = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    return entries if is_list else None


def _described(source: Source, entry: Mapping[str, Any]) -> HubFile:
    """Raises _Unchecked."""
    num_bytes, is_large = _size_of(entry), bool(entry.get("lfs"))
    checksum = str((entry["lfs"] if is_large else entry).get("oid", "")).removeprefix("sha256:")
    digits = _SHA256_DIGITS if is_large else _GIT_DIGITS
    if num_bytes is None or not re.fullmatch(rf"[0-9a-f]{{{digits}}}", checksum):
        raise _Unchecked(source.file)
    return HubFile(source, num_bytes, checksum)


def _size_of(entry: Mapping[str, Any]) -> int | None:
    num_bytes = (entry.get("lfs") or {}).get("size", entry.get("size"))
    return num_bytes if isinstance(num_bytes, int) else None


def _is_of(wanted: HubFile, start: int, headers: Mapping[str, str]) -> bool:
    """Whether what comes is the rest of the file, as far as its headers tell."""
    if headers.get("Content-Type", "").startswith("text/html"):
        return False
    if start:
        match = _RANGE.fullmatch(headers.get("Content-Range", ""))
        return match is not None and int(match[1]) == start and match[2] in (str(wanted.num_bytes), "*")
    return headers.get("Content-Length", str(wanted.num_bytes)) == str(wanted.num_bytes)


def _refusal(wanted: Source | Folder | Wanted, hub: str, status: int, wait_s: float | None) -> DownloadFailed:
    if isinstance(wanted, Wanted):
        return _search_refused(hub, status, wait_s)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return DownloadFailed(
            f"{hub} gives {wanted.repo} only to people with an account who accepted its licence, or it is not there.",
            "Choose another model, or download the file in a browser and open it.",
        )
    if status == HTTPStatus.NOT_FOUND:
        return _missing(wanted, hub)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return _pause_asked(hub, wait_s)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return DownloadCut(f"{hub} has a problem of its own ({status}).", f"Try again later. {_KEPT}", wait_s)
    return DownloadFailed(f"{hub} refused to give {_what(wanted)} ({status}).", "Choose another model.")


def _search_refused(hub: str, status: int, wait_s: float | None) -> DownloadFailed:
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return DownloadFailed(
            f"{hub} asks you to wait: there were too many requests from your network.",
            f"Search again in {'some' if wait_s is None else max(1, round(wait_s / 60))} minutes.",
        )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return DownloadFailed(f"{hub} has a problem of its own ({status}).", "Search again later.")
    # A mirror may have the files alone.
    return DownloadFailed(
        f"{hub} cannot be searched by words ({status}).",
        "Paste the link of a model's page instead, or name it as OWNER/NAME.",
    )


def _pause_asked(hub: str, wait_s: float | None) -> DownloadFailed:
    sentence = f"{hub} asks you to wait: there were too many requests from your network."
    if wait_s is None or wait_s <= LONGEST_WAIT_SECONDS:
        return DownloadCut(sentence, f"Try again in some minutes. {_KEPT}", wait_s)
    return DownloadFailed(sentence, f"Try again in {round(wait_s / 60)} minutes. {_KEPT}")


def _missing(wanted: Source | Folder, hub: str) -> DownloadFailed:
    return DownloadFailed(f"There is no {_what(wanted)} on {hub}.", "Check its name there, or choose another model.")


def _what(wanted: Source | Folder) -> str:
    return str(wanted) if isinstance(wanted, Folder) else f"{wanted.file} in {wanted.repository}"


def _seconds_asked(headers: Mapping[str, str]) -> float | None:
    """What Retry-After says: seconds, or a time by the clock of the hub; None where it says neither."""
    asked = headers.get("Retry-After", "")
    if asked.isdecimal():
        return float(asked)
    until = _time(asked)
    return None if until is None else max(0.0, (until - (_time(headers.get("Date", "")) or _now())).total_seconds())


def _time(text: str) -> datetime | None:
    with suppress(TypeError, ValueError):
        told = parsedate_to_datetime(text)
        return told if told.tzinfo is not None else told.replace(tzinfo=UTC)
    return None


def _now() -> datetime:
    return datetime.now(UTC)
