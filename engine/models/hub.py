"""The hub: file lists, and a file from any byte on; each refusal is a sentence and a way out.

Requests are anonymous: without account or token. Redirects are followed, and the system's proxies are used.
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

# Timeouts for connecting, and for silence.
CONNECT_SECONDS, SILENT_SECONDS = 10.0, 20.0
PIECE_BYTES = 64 * 1024
# If the hub asks for a longer pause, the download ends instead.
LONGEST_WAIT_SECONDS = 120.0
# What a hub asks for is reported up to this.
_MOST_SECONDS_ASKED = 86_400.0
_SHA256_DIGITS, _GIT_DIGITS = 64, 40
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_KEPT = "What was fetched is kept."
# Files that cannot answer alone: vision projectors, importance matrices, embedding models.
_GOES_WITH_MODELS = re.compile(r"mmproj|imatrix|embed|rerank|\bbge\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HubFile:
    """The size and checksum of a file on the hub: git's SHA-1 for small files, SHA-256 for large ones."""

    source: Source
    num_bytes: int
    checksum: str

    def new_sum(self) -> Any:
        """Returns a new hash object (as in hashlib) for computing the checksum of its content."""
        if len(self.checksum) == _SHA256_DIGITS:
            return hashlib.sha256()
        return hashlib.sha1(f"blob {self.num_bytes}\0".encode(), usedforsecurity=False)


@dataclass(frozen=True, slots=True)
class Offer:
    """A model on the hub; `num_bytes` is the size of all its files."""

    source: Source
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes of a file from `start` on, which is 0 if the hub ignored the requested start."""

    start: int
    pieces: Iterator[bytes]


class _Unchecked(Exception):
    """The hub gives no checksum for a file; the message is its name."""


class Hub:
    """One hub by its address."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._name = self._address.partition("://")[2].partition("/")[0].rpartition("@")[2]

    def look_up(self, wanted: Sequence[Source]) -> list[HubFile]:
        """Looks up size and checksum of files in one folder.

        Raises:
            DownloadFailed: There is no such file, access is refused, or the hub cannot be reached.
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
        """Returns all files in a folder that have a checksum, including those in subfolders.

        Raises:
            DownloadFailed: There is no such folder, access is refused, or the hub cannot be reached.
        """
        found = []
        for entry in self._entries(folder):
            # Files with names that we cannot store, or without a checksum, are ignored.
            with suppress(BadRequest, _Unchecked):
                found.append(_described(folder.holding(str(entry.get("path"))), entry))
        return found

    def offers(self, folder: Folder) -> list[Offer]:
        """Returns the models in a folder that may write answers, smallest first; one in several files counts once.

        Raises:
            DownloadFailed: There is no such folder or model, access is refused, or the hub cannot be reached.
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
            # A split model is listed by its first file, if all files exist.
            if path == offer.source.file and all(piece.file in found for piece in offer.source.pieces)
        ]
        if not offers:
            raise DownloadFailed(
                f"There is no GGUF file in {folder} on {self._name} that can write answers.",
                "Look there for a repository whose name ends in GGUF.",
            )
        return sorted(offers, key=lambda offer: (offer.num_bytes, offer.source.file))

    def search(self, wanted: Wanted) -> list[Repository]:
        """Searches repositories with GGUF files by words, most downloaded first; returns at least one.

        Raises:
            DownloadFailed: None matches, or the hub cannot be searched or reached.
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
        """Opens a file from a byte on, if the hub supports that.

        Raises:
            DownloadCut: The connection failed, now or while reading.
            DownloadFailed: Access is refused, or the hub sends something else.
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
        """Yields the hub's entries of all files beside a file, or below a folder."""
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
        # A compressed response could not be resumed in the middle.
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
    """A session that stays anonymous after redirects."""

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        prepared_request.headers.pop("Authorization", None)


def _as_nobody(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Adds no credentials; without this, requests would read the user's password from ~/.netrc."""
    return request


def _listed(response: requests.Response) -> list[Mapping[str, Any]] | None:
    """Returns the entries of a response; None if it is not a list of objects."""
    try:
        entries = response.json()
    except requests.exceptions.JSONDecodeError:
        return None
    is_list = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    return entries if is_list else None


def _described(source: Source, entry: Mapping[str, Any]) -> HubFile:
    """Converts an entry. Raises _Unchecked if it has no valid checksum."""
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
    """Returns whether a response is the requested rest of the file, according to its headers."""
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
    # A mirror may not support searching.
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
    """Parses Retry-After, which has seconds or a time by the hub's clock; None if it is missing or invalid."""
    asked = headers.get("Retry-After", "")
    if asked.isdecimal():
        return min(float(asked), _MOST_SECONDS_ASKED)
    until = _time(asked)
    return None if until is None else max(0.0, (until - (_time(headers.get("Date", "")) or _now())).total_seconds())


def _time(text: str) -> datetime | None:
    with suppress(TypeError, ValueError):
        told = parsedate_to_datetime(text)
        return told if told.tzinfo is not None else told.replace(tzinfo=UTC)
    return None


def _now() -> datetime:
    return datetime.now(UTC)
