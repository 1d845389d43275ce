"""Input files of commands: lines of a batch, a grammar or schema, a password that other users must not read."""

from __future__ import annotations

import getpass
import json
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine.core import SamplingParams
from engine.errors import BadRequest, NothingThere, first_fault
from engine.library.typed_paths import absolute


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A line of a batch; `model` is "" if it names none."""

    line_id: Any
    text: str
    model: str = ""


def read_batch(file: str, *keys: str) -> list[BatchLine]:
    """Reads the lines of a JSONL file.

    Raises:
        NothingThere: No such file.
        BadRequest: A line is not `{"id": …, KEY: …}`; the sentence says which.
    """
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise NothingThere(f"There is no file {file}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"The batch {file} cannot be read: {error}.") from error
    # Not splitlines: U+2028 and its like may stand inside a JSON string.
    return [_batch_line(number, line, keys) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]


def _batch_line(number: int, line: str, keys: Sequence[str]) -> BatchLine:
    try:
        entry = json.loads(line)
        text, model = next(entry[key] for key in keys if key in entry), entry.get("model") or ""
        if not (isinstance(text, str) and isinstance(model, str)):
            raise TypeError
        return BatchLine(entry["id"], text, model)
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise BadRequest(f"Line {number} of the batch is not of the form {{'id': …, '{keys[0]}': …}}.") from error


def folder_there(name: str) -> str:
    """Returns the absolute path of an existing folder, valid wherever the engine runs; any other name unchanged."""
    return path if name and os.path.isdir(path := absolute(name)) else name


def read_form(file: str | None, what: str) -> str:
    """Reads the grammar or JSON schema in a file; "" if none is named.

    Raises:
        NothingThere: No such file.
        BadRequest: It is not text.
    """
    if file is None:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise NothingThere(f"There is no file {file}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"The {what} {file} cannot be read: {error}.") from error


def read_sampling(pairs: Sequence[str], others: Mapping[str, Any]) -> SamplingParams:
    """Reads the parameters in `pairs`, each `NAME=VALUE` with a JSON value or plain text; the rest is from `others`.

    Raises:
        BadRequest: No such parameter, or a value of the wrong type; ranges are checked where it is used.
    """
    chosen = dict(map(read_pair, pairs))
    names = [field.name for field in fields(SamplingParams)]
    if unknown := [name for name in chosen if name not in names]:
        raise BadRequest(f"There is no sampling parameter {unknown[0]!r}.", f"The names are {', '.join(names)}.")
    try:
        return TypeAdapter(SamplingParams).validate_python({**others, **chosen})
    except ValidationError as error:
        raise BadRequest(f"A sampling parameter cannot be used: {first_fault(error)}.") from error


def read_pair(text: str) -> tuple[str, Any]:
    """Parses `NAME=VALUE`: the value is JSON, or else plain text.

    Raises:
        BadRequest: It is not of that form.
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise BadRequest(f"{text!r} is not of the form NAME=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def read_password(file: str | None) -> str:
    """Reads the first line of a file ("-" is stdin), or hidden input: others could read a command line.

    Raises:
        BadRequest: The file cannot be read, or there is no terminal.
    """
    if file is None:
        try:
            with warnings.catch_warnings():
                # Without a terminal, it is read from a pipe.
                warnings.simplefilter("ignore", getpass.GetPassWarning)
                return getpass.getpass("Password: ")
        except EOFError as error:
            raise BadRequest("There is no terminal for the password.", "Give it with --password-file FILE.") from error
    try:
        text = sys.stdin.readline() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"The password file {file} cannot be read: {error}.") from error
    return text.removeprefix("\ufeff").split("\n", maxsplit=1)[0].rstrip("\r")
