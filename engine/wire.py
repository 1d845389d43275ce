"""The wire between window and engine: how a message becomes a line, and a line a message again.

One message a line, UTF-8 JSON: requests `{id, method, params}` go down; replies `{id, result | error}`
and notifications `{method, params}` come up. The messages are declared in `engine/protocol`; like that package,
this module is imported by both processes, and imports nothing heavy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from engine.errors import ProtocolError, RagdollError, first_fault
from engine.protocol import NOTICES, REQUESTS, Message, Method, Notice, P, R

# A rendered page travels as base64 in one line; anything longer is garbage.
MAX_LINE_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came over the pipe; `params` are of the method's type."""

    id: int
    method: Method[Any, Any]
    params: Message


@dataclass(frozen=True, slots=True)
class WireError:
    """An error in a reply."""

    kind: str
    sentence: str
    way_out: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to request `id`: an untyped result (the caller knows its type), or an error."""

    id: int
    result: dict[str, Any] | None = None
    error: WireError | None = None


class RequestRefused(ProtocolError):
    """A request is invalid, but its id is known, so the client gets an error."""

    def __init__(self, request_id: int, sentence: str) -> None:
        super().__init__(sentence)
        self.request_id = request_id


def encode_request(request_id: int, method: Method[P, Any], params: P) -> bytes:
    return _line({"id": request_id, "method": method.name, "params": params.model_dump()})


def encode_result(request_id: int, result: Message) -> bytes:
    return _line({"id": request_id, "result": result.model_dump()})


def encode_error(request_id: int, error: RagdollError) -> bytes:
    body = {"kind": error.kind, "sentence": error.sentence, "way_out": error.way_out}
    return _line({"id": request_id, "error": body})


def encode_notice(notice: Notice) -> bytes:
    return _line({"method": notice.method, "params": notice.model_dump()})


def decode_request(line: bytes) -> Request:
    """Decodes and checks a request.

    Raises:
        RequestRefused: The id is known, but method or params are not ours.
        ProtocolError: The line is not a request at all.
    """
    body = _body(line)
    request_id, name = body.get("id"), body.get("method")
    if not isinstance(request_id, int) or not isinstance(name, str):
        raise ProtocolError("Received a line that is not a request.")
    method = REQUESTS.get(name)
    if method is None:
        raise RequestRefused(request_id, f"This engine knows no request named {name!r}.")
    try:
        return Request(request_id, method, method.params.model_validate(body.get("params") or {}))
    except ValidationError as error:
        raise RequestRefused(request_id, f"The request {name!r} has wrong arguments: {first_fault(error)}.") from error


def decode_message(line: bytes) -> Reply | Notice:
    """Decodes a message of the engine.

    Raises:
        ProtocolError: The line is not a message of ours.
    """
    body = _body(line)
    if "id" in body:
        return _reply(body)
    notice = NOTICES.get(str(body.get("method")))
    if notice is None:
        raise ProtocolError("Received a line that is not a message.")
    try:
        return notice.model_validate(body.get("params") or {})
    except ValidationError as error:
        raise ProtocolError(f"A {notice.method!r} message is malformed: {first_fault(error)}.") from error


def decode_result(method: Method[Any, R], result: dict[str, Any]) -> R:
    """Decodes the result of a reply.

    Raises:
        ProtocolError: The result is not of the method's type.
    """
    try:
        return method.result.model_validate(result)
    except ValidationError as error:
        raise ProtocolError(f"The reply to {method.name!r} is malformed: {first_fault(error)}.") from error


def _reply(body: dict[str, Any]) -> Reply:
    error = body.get("error")
    if isinstance(error, dict):
        fields = {key: str(error.get(key, "")) for key in ("kind", "sentence", "way_out")}
        if not isinstance(body["id"], int):
            raise ProtocolError("Received an error that replies to nothing.")
        return Reply(body["id"], error=WireError(**fields))
    result = body.get("result")
    if not isinstance(result, dict) or not isinstance(body["id"], int):
        raise ProtocolError("Received a reply with neither result nor error.")
    return Reply(body["id"], result=result)


def _line(body: dict[str, Any]) -> bytes:
    # ASCII-only JSON: surrogate escapes in file names pass as \udcXX, and no newline can hide in the text.
    return json.dumps(body, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: object) -> object:
    raise TypeError(f"{type(value).__name__} cannot travel over the pipe")


def _body(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise ProtocolError("Received a line that is longer than any message.")
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("Received a line that is not JSON.") from error
    if not isinstance(body, dict):
        raise ProtocolError("Received a line that is not a JSON object.")
    return body
