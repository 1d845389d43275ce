"""The codebook: how vectors become codes an eighth the size of int8 rows, and how many candidates that requires.

A vector is rotated onto its principal directions, and the weaker half of them is dropped. The rest are coded in pairs
of four bits each, the strongest direction with the weakest, so that all pairs hold about the same variance. Measured on
1,000,000 × 384: the share of the true ten among the best by code, without the rotation and with it:

                                             best 100    200      300      1000
    four numbers to a code, as they come       .817               .943     .987
    principal directions in pairs              .994      .998     .999     1.000
    the same, 100,000 around real embeddings   .988      .998     .999     1.000

How many candidates are enough is measured on the library's own vectors when the codebook is made.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.partitions import fast_scan
from engine.partitions.durable import write_durably
from engine.partitions.fast_scan import FastScan
from engine.partitions.rows import Vectors

NAME = "codebook"

_MAGIC, _FORMAT = b"RAGDOLLB", 1
_PREFIX = struct.Struct("<8sII")
# Two of four numbers of a vector are kept, and these two make one code.
_NUMBERS_PER_CODE = 4
# Calibration questions are means of several sample rows, so that none lies close to a single row.
_QUESTIONS, _ROWS_PER_QUESTION = 256, 4
# The recall that calibration requires, and the candidates beyond which scanning int8 rows is faster.
_SHARE, _MOST_CANDIDATES = 0.998, 2000
_FEW, _MANY = 10, 50
# Five times as many rows need 1.35 times as many candidates (measured with 200,000 and 1,000,000 synthetic vectors); a
# million rows need 270.
_GROWTH = 0.2
# The lower bound: people's questions lie farther from passages than calibration questions do (SQuAD needs 200
# candidates of 100,000 for .998, where calibration says 100).
_LEAST_CANDIDATES = 250


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many candidates are needed among `num_rows`: `few` for the best ten rows, `many` for the best fifty.

    `recall` is the measured share of the true ten among `few` candidates.
    """

    num_rows: int
    few: int
    many: int
    recall: float

    def candidates(self, limit: int, num_rows: int) -> int:
        """Returns how many rows to score exactly for the `limit` best of `num_rows`."""
        per_row = max(1.0, (self.many - self.few) / (_MANY - _FEW))
        enough = self.few + per_row * max(0, limit - _FEW)
        return max(_LEAST_CANDIDATES, int(np.ceil(enough * max(1.0, num_rows / self.num_rows) ** _GROWTH)))


@dataclass(frozen=True, slots=True, eq=False)
class Codebook:
    """The codebook of one embedding model. `rotation` is (d, k), `centroids` (m, 16, k ÷ m); `crc` identifies it."""

    embedder: str
    trained_on: int
    calibration: Calibration
    rotation: Vectors
    centroids: Vectors
    crc: int

    @property
    def num_codes(self) -> int:
        return len(self.centroids)

    @property
    def num_bytes(self) -> int:
        return int(self.rotation.nbytes + self.centroids.nbytes)

    def turned(self, vectors: Vectors) -> Vectors:
        """Rotates (n, d) → (n, k): rows before they are coded, queries before they are searched."""
        turned: Vectors = vectors @ self.rotation
        return turned

    def write(self, folder: Path) -> None:
        """Writes it into a folder. Raises OSError, and leaves the folder unchanged then."""
        words = json.dumps(self._words()).encode()
        content = b"".join((words, self.rotation.tobytes(), self.centroids.tobytes()))
        head = _PREFIX.pack(_MAGIC, len(words), zlib.crc32(content))
        write_durably(folder / NAME, (head, content))

    @classmethod
    def read(cls, folder: Path, embedder: str, dimensions: int) -> Codebook | None:
        """Returns the codebook in a folder; None if it is missing, damaged, or of another model."""
        try:
            content = (folder / NAME).read_bytes()
            magic, length, crc = _PREFIX.unpack_from(content)
            content = content[_PREFIX.size :]
            if magic != _MAGIC or zlib.crc32(content) != crc:
                return None
            book = cls._parsed(json.loads(content[:length]), content[length:])
        except (OSError, ValueError, TypeError, KeyError, struct.error):
            return None
        return book if (book.embedder, len(book.rotation)) == (embedder, dimensions) else None

    def _words(self) -> dict[str, Any]:
        calibration = {name: getattr(self.calibration, name) for name in Calibration.__slots__}
        shapes = {"rotation": self.rotation.shape, "centroids": self.centroids.shape}
        return {
            "format": _FORMAT,
            "embedder": self.embedder,
            "trained_on": self.trained_on,
            "calibration": calibration,
            "shapes": shapes,
        }

    @classmethod
    def _parsed(cls, words: dict[str, Any], numbers: bytes) -> Codebook:
        if words["format"] != _FORMAT:
            raise ValueError("written by another version")
        rotation, centroids = tuple(words["shapes"]["rotation"]), tuple(words["shapes"]["centroids"])
        first = int(np.prod(rotation))
        return _named(
            cls(
                words["embedder"],
                words["trained_on"],
                Calibration(**words["calibration"]),
                np.frombuffer(numbers, np.float32, first).reshape(rotation),
                np.frombuffer(numbers, np.float32, offset=4 * first).reshape(centroids),
                0,
            )
        )


def made(sample: Vectors, embedder: str, num_rows: int) -> Codebook | None:
    """Makes a codebook from (n, d) vectors, a random sample of the `num_rows` that will be coded.

    Returns None where codes do not help: the vectors are too short, or so similar that too many candidates would be
    needed.
    """
    num_codes = min(fast_scan.MOST_CODES, sample.shape[1] // _NUMBERS_PER_CODE // 2 * 2)
    if num_codes < 2:
        return None
    held_out = min(_QUESTIONS, len(sample) // (2 * _ROWS_PER_QUESTION)) * _ROWS_PER_QUESTION
    asked, pool = sample[:held_out], sample[held_out:]
    rotation = _principal(pool, 2 * num_codes)
    centroids = fast_scan.fit(pool @ rotation, num_codes)
    book = Codebook(embedder, num_rows, Calibration(len(pool), 1, 1, 0.0), rotation, centroids, 0)
    calibration = _calibrated(book, asked, pool)
    return None if calibration is None else _named(replace(book, calibration=calibration))


def _named(book: Codebook) -> Codebook:
    return replace(book, crc=zlib.crc32(book.centroids.tobytes(), zlib.crc32(book.rotation.tobytes())))


def _principal(vectors: Vectors, count: int) -> Vectors:
    """Returns the `count` strongest directions as columns: the strongest, the weakest, the next ones."""
    _, directions = np.linalg.eigh((vectors.T @ vectors).astype(np.float64))
    strongest = directions[:, ::-1][:, :count]
    half = np.arange(count // 2)
    pairs = np.stack([half, count - 1 - half], axis=1).ravel()
    return np.ascontiguousarray(strongest[:, pairs], np.float32)


def _calibrated(book: Codebook, asked: Vectors, pool: Vectors) -> Calibration | None:
    questions = asked.reshape(-1, _ROWS_PER_QUESTION, asked.shape[1]).mean(axis=1)
    ranks = _ranks(book, questions, pool)
    few, many = (int(np.quantile(ranks[:, :best], _SHARE, method="higher")) + 1 for best in (_FEW, _MANY))
    if few > _MOST_CANDIDATES:
        return None
    return Calibration(len(pool), few, many, float(np.mean(ranks[:, :_FEW] < few)))


def _ranks(book: Codebook, questions: Vectors, pool: Vectors) -> NDArray[np.int64]:
    """Returns (q, 50): the ranks by code of each question's true best rows; beyond all ranks if not found."""
    scan = FastScan(book.centroids)
    scan.add(book.turned(pool))
    by_code, _ = scan.search(book.turned(questions), min(len(pool), 2 * _MOST_CANDIDATES))
    exact = questions @ pool.T
    best = np.argpartition(-exact, _MANY - 1, axis=1)[:, :_MANY]
    best = np.take_along_axis(best, np.argsort(-np.take_along_axis(exact, best, axis=1), axis=1), axis=1)
    places = np.full(exact.shape, by_code.shape[1], np.int64)
    np.put_along_axis(places, by_code, np.arange(by_code.shape[1])[None, :], axis=1)
    return np.take_along_axis(places, best, axis=1)
