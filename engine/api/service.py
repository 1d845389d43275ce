"""The routes of the HTTP API: which there are, who may use them, and how a question is followed to its end.

A web page must not be able to read the user's files through this computer. It cannot: requests need the key, must
name this machine as their host (other names that resolve to it are refused), and no other origin is allowed.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from engine.api import naming, replies
from engine.api.asking import AnswerEvents, asked
from engine.api.history import Conversation, Conversations, Said, Searched, said
from engine.api.requests import ChatRequest, CompletionRequest, EmbeddingsRequest, SearchRequest, StreamOptions
from engine.api.vectors import embedded, wanted_of
from engine.core import Alternative, Answer, Evidence, Priority, Question
from engine.engine import Engine
from engine.errors import BadRequest, Cancelled, ModelNotFound, NothingThere, RagdollError, first_fault
from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, ThoughtsGenerated, TokensGenerated
from engine.library.well_formed import well_formed
from engine.models.known import names_of

# A conversation of a million words.
MAX_BODY_BYTES = 16 * 2**20
# After this silence a stream sends a sign of life: otherwise proxies would end it.
BEAT_S = 10.0
# How many questions a user may have open: an editor may complete a line while a chat is written.
MOST_IN_PERSON = 2
# Further searches wait until one of these has ended.
SEARCHES_AT_ONCE = 2
_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
_SCHEME = "bearer "
_DONE = "data: [DONE]\n\n"
_BEAT = ": waiting\n\n"

Body = TypeVar("Body", bound=BaseModel)
Result = TypeVar("Result")
Handler = Callable[["Service", Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class _Asking:
    """A question with the head of its replies, and its conversation if it belongs to one."""

    question: Question
    head: replies.Head
    said_in: tuple[Said, Conversation] | None = None


def _told(handler: Handler) -> Handler:
    """Converts an exception to an error reply."""

    @wraps(handler)
    async def handle(service: Service, request: Request) -> Response:
        try:
            service.check_key(request)
            return await handler(service, request)
        except RagdollError as error:
            status, reply = replies.refusal(error)
            return JSONResponse(reply, status, replies.headers(error))
        except _Unknown:
            reply = replies.problem("The API key is missing or wrong.", "invalid_api_key")
            return JSONResponse(reply, 401, {"WWW-Authenticate": "Bearer"})
        except ClientDisconnect:
            return Response(status_code=499)

    return handle


class _Unknown(Exception):
    """A request without a valid key."""


class Service:
    """The routes of one engine. `key` is what requests must send, "" for none."""

    def __init__(self, engine: Engine, key: str) -> None:
        self._engine, self._key = engine, key
        self._conversations = Conversations()
        # Ids of questions that have not ended.
        self._open = set[str]()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._since = int(time.time())
        self._is_ending = False
        # A pool of their own: hundreds of searches of a script would otherwise delay every question. The engine runs
        # them one after another; those whose client has left are not started.
        self._searches = ThreadPoolExecutor(SEARCHES_AT_ONCE, "api search")

    def app(self) -> Starlette:
        def route(path: str, handler: Handler, method: str) -> Route:
            async def endpoint(request: Request) -> Response:
                return await handler(self, request)

            return Route(path, endpoint, methods=[method])

        return Starlette(
            routes=[
                route("/health", Service._health, "GET"),
                route("/v1/models", Service._models, "GET"),
                route("/v1/models/{name:path}", Service._model, "GET"),
                route("/v1/chat/completions", Service._chat, "POST"),
                route("/v1/completions", Service._completions, "POST"),
                route("/v1/embeddings", Service._embeddings, "POST"),
                route("/v1/search", Service._search, "POST"),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS, www_redirect=False)],
            exception_handlers={404: _not_here, 405: _not_here, 500: _broken},
        )

    def stop_all(self) -> None:
        """Cancels all questions, so that each client gets a reply (from any thread)."""
        self._is_ending = True
        self._searches.shutdown(wait=False, cancel_futures=True)
        for question_id in tuple(self._open):
            self._engine.cancel(question_id)

    def check_key(self, request: Request) -> None:
        given = request.headers.get("authorization", "")
        if given[: len(_SCHEME)].lower() == _SCHEME:
            given = given[len(_SCHEME) :].strip()
        if self._key and not hmac.compare_digest(given.encode("latin-1"), self._key.encode()):
            raise _Unknown

    # --- routes ---

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    @_told
    async def _models(self, request: Request) -> Response:
        return JSONResponse(replies.models(await asyncio.to_thread(self._names), self._since))

    @_told
    async def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in await asyncio.to_thread(self._names):
            raise _no_model(name)
        return JSONResponse(replies.models([name], self._since)["data"][0])

    @_told
    async def _search(self, request: Request) -> Response:
        wanted = await _read(request, SearchRequest)
        evidence = await _unless_left(request, self._found(wanted))
        return JSONResponse({"passages": [replies.of_passage(passage) for passage in evidence.passages]})

    @_told
    async def _chat(self, request: Request) -> Response:
        wanted = await _read(request, ChatRequest)
        asking = self._asking(wanted)
        if wanted.stream:
            return await self._streamed(request, asking, wanted.stream_options)
        finished = await _unless_left(request, self._finished(asking))
        return JSONResponse(replies.completion(asking.head, finished.answer, finished.timings))

    @_told
    async def _completions(self, request: Request) -> Response:
        wanted = await _read(request, CompletionRequest)
        each = self._asking_on(wanted)
        if wanted.stream:
            return await self._streamed(request, each[0], wanted.stream_options)
        finished = await _unless_left(request, self._all_finished(each))
        return JSONResponse(replies.continuations(each[0].head, [(one.answer, one.timings) for one in finished]))

    @_told
    async def _embeddings(self, request: Request) -> Response:
        wanted = await _read(request, EmbeddingsRequest)
        texts, model = wanted.texts(), wanted_of(await asyncio.to_thread(self._engine.embedding_model), wanted)
        slices = await _unless_left(request, embedded(self._engine, texts, model, lambda: self._is_ending))
        in_base64 = wanted.encoding_format == "base64"
        reply = await asyncio.to_thread(replies.embeddings, model.name, slices, in_base64=in_base64)
        return Response(reply, media_type="application/json")

    async def _found(self, wanted: SearchRequest) -> Evidence:
        where = wanted.where
        find = (wanted.query, where.passages or wanted.top_k, *where.confined_to())
        try:
            return await asyncio.get_running_loop().run_in_executor(self._searches, self._engine.search, *find)
        except (asyncio.CancelledError, RuntimeError):
            # The server ended before the search had started.
            if self._is_ending:
                raise Cancelled("Ragdoll has stopped searching.") from None
            raise

    # --- a question ---

    def _asking(self, wanted: ChatRequest) -> _Asking:
        named, where = naming.understood(wanted.model), wanted.ragdoll
        searches = named.searches if where.searches is None else where.searches
        if where.is_confined and not searches:
            raise _nothing_to_confine()
        model = self._file_of(named, searches=searches)
        words, usual = said(wanted.messages), self._engine.settings.generation
        collection, filters = where.confined_to(named.collection)
        conversation = self._conversations.of(words, Searched(collection, filters) if searches else None)
        question = Question(
            question_id=uuid4().hex,
            text=words.question,
            collection=collection,
            conversation_id=conversation.conversation_id,
            transcript=conversation.transcript,
            top_k=where.passages,
            sampling=wanted.sampling(usual.sampling()),
            filters=filters,
            priority=self._priority(1),
            model=model,
            # A model without files gets the application's instructions only.
            instructions=words.instructions or (usual.instructions if searches else ""),
            searches=searches,
            is_verbatim=not searches,
        )
        head = replies.Head(question.question_id, int(time.time()), wanted.model or naming.CHOSEN)
        return _Asking(question, head, (words, conversation))

    def _asking_on(self, wanted: CompletionRequest) -> list[_Asking]:
        """One question for each prompt."""
        named, prompts = naming.understood(wanted.model), wanted.prompts()
        if named.searches:
            raise BadRequest("Completions do not search files.", "Ask at /v1/chat/completions.")
        if wanted.ragdoll.is_confined:
            raise _nothing_to_confine()
        model, usual = self._file_of(named, searches=False), self._engine.settings.generation
        sampling, created, priority = wanted.sampling(usual.sampling()), int(time.time()), self._priority(len(prompts))
        questions = [
            Question(
                question_id=uuid4().hex,
                text=prompt,
                sampling=sampling,
                priority=priority,
                model=model,
                searches=False,
                is_raw=True,
            )
            for prompt in prompts
        ]
        name = wanted.model or naming.CHOSEN
        return [_Asking(one, replies.Head(one.question_id, created, name, is_text=True)) for one in questions]

    def _file_of(self, named: naming.Named, *, searches: bool) -> str:
        """`Question.model` for a name. Raises ModelNotFound for an unknown name, BadRequest for an ambiguous one."""
        settings = self._engine.settings.models
        model = naming.file_of(named.model, settings.known)
        if model is None:
            raise _no_model(named.model)
        if not searches and not model and not settings.current:
            raise ModelNotFound(
                "No model is chosen in Ragdoll, and without one there are only quotes from files.",
                f"Choose one there, or ask {naming.CHOSEN}{naming.FILES}.",
            )
        return model

    def _priority(self, num_questions: int) -> Priority:
        """The priority of a request: many at once come from a script, which can wait for users at the window."""
        return "interactive" if len(self._open) + num_questions <= MOST_IN_PERSON else "batch"

    async def _finished(self, asking: _Asking) -> AnswerFinished:
        async with self._asked(asking) as events:
            finished = _finished(await events.end())
        self._note(asking, finished.answer, finished.answer.text)
        return finished

    async def _all_finished(self, each: Sequence[_Asking]) -> list[AnswerFinished]:
        """Follows all questions of a request; if one is refused or fails, the others are cancelled."""
        answering = [asyncio.ensure_future(self._finished(one)) for one in each]
        try:
            return await asyncio.gather(*answering)
        finally:
            for one in answering:
                one.cancel()

    async def _streamed(self, request: Request, asking: _Asking, options: StreamOptions) -> Response:
        pieces = self._pieces(asking, tells_usage=options.include_usage)
        # Questions are refused before anything is sent.
        first = await _unless_left(request, anext(pieces))
        return StreamingResponse(_with(first, pieces), media_type="text/event-stream", headers=_FRESH)

    async def _pieces(self, asking: _Asking, *, tells_usage: bool) -> AsyncGenerator[str, None]:
        told, head = "", asking.head
        async with self._asked(asking) as events:
            yield _event(replies.piece(head, role="assistant", content=""))
            try:
                async for event in _until_end(events):
                    if isinstance(event, TokensGenerated):
                        told += event.text
                        yield _event(replies.piece(head, content=event.text))
                    elif isinstance(event, ThoughtsGenerated):
                        yield _event(replies.piece(head, reasoning_content=event.text))
                    elif isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed):
                        finished = _finished(event)
                    elif event is None:
                        yield _BEAT
            except RagdollError as error:
                yield _event(replies.refusal(error)[1])
                return
        answer = finished.answer
        # Clients send back what they received. Many disconnect at the last word, so it is remembered before that.
        self._note(asking, answer, answer.text if answer.text.startswith(told) else told)
        for last in replies.last_pieces(head, answer, told):
            yield _event(last)
        if tells_usage:
            yield _event(replies.last_usage(head, finished.timings))
        yield _DONE

    @asynccontextmanager
    async def _asked(self, asking: _Asking) -> AsyncIterator[AnswerEvents]:
        self._open.add(asking.question.question_id)
        try:
            async with asked(self._engine, asking.question, self._turns[asking.question.model]) as events:
                yield events
        finally:
            self._open.discard(asking.question.question_id)

    def _note(self, asking: _Asking, answer: Answer, text: str) -> None:
        """Remembers all answers, because a conversation may continue from any of them."""
        if asking.said_in is None:
            return
        words, conversation = asking.said_in
        first = Alternative(text, answer.citations, answer.finish_reason, answer.segments)
        for one in (*answer.alternatives, first):
            self._conversations.note(words, one.text, conversation, one.segments)

    def _names(self) -> list[str]:
        models = names_of(self._engine.settings.models.known)
        collections = [collection.name for collection in self._engine.collections()]
        embedder = self._engine.embedding_model()
        return naming.offered(models, collections, embedder.name if embedder is not None else "")


_FRESH = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def _read(request: Request, kind: type[Body]) -> Body:
    """The body of a request. Raises BadRequest if it is invalid."""
    # A web page may send other content types to any address without a CORS preflight.
    if not request.headers.get("content-type", "").lower().startswith("application/json"):
        raise BadRequest("The body must be JSON, with Content-Type application/json.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise BadRequest(f"The request is longer than {MAX_BODY_BYTES // 2**20} MB.", "Send less of it.")
    try:
        return _parsed(bytes(body), kind)
    except ValidationError as error:
        raise BadRequest(f"The request cannot be read: {first_fault(error)}.") from error


def _parsed(body: bytes, kind: type[Body]) -> Body:
    """Raises ValidationError for invalid JSON, including a byte order mark or invalid UTF-8, which others accept."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        if error.errors()[0]["type"] != "json_invalid":
            raise
        try:
            forgiven = well_formed(json.dumps(json.loads(body.decode("utf-8-sig")), ensure_ascii=False))
        except (ValueError, RecursionError):
            raise error from None
    return kind.model_validate_json(forgiven)


async def _until_end(events: AnswerEvents) -> AsyncIterator[Any]:
    """All events until the question has ended; None regularly if there are none."""
    while True:
        event = await events.next(BEAT_S)
        yield event
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed):
            return


async def _unless_left(request: Request, answering: Coroutine[Any, Any, Result]) -> Result:
    """The result of `answering`. Cancels it and raises ClientDisconnect if the client leaves first."""
    result, gone = asyncio.ensure_future(answering), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((result, gone), return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            raise ClientDisconnect
        return result.result()
    finally:
        result.cancel()
        gone.cancel()


async def _left(request: Request) -> None:
    """Waits until the client has left."""
    with suppress(ClientDisconnect):
        while (await request.receive())["type"] != "http.disconnect":
            pass


async def _with(first: str, rest: AsyncGenerator[str, None]) -> AsyncIterator[str]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


def _nothing_to_confine() -> BadRequest:
    return BadRequest(
        "A model by itself searches no files, so there is nothing to filter.",
        f"Ask NAME{naming.FILES}, or leave out the filters.",
    )


def _no_model(name: str) -> ModelNotFound:
    return ModelNotFound(f"There is no model called {name!r} here.", "/v1/models lists them.")


def _finished(end: AnswerFinished | AnswerCancelled | AnswerFailed) -> AnswerFinished:
    if isinstance(end, AnswerFinished):
        return end
    raise end.error if isinstance(end, AnswerFailed) else Cancelled("The question was stopped in Ragdoll.")


def _event(reply: replies.Reply) -> str:
    return f"data: {json.dumps(reply, ensure_ascii=False)}\n\n"


async def _not_here(request: Request, error: Exception) -> Response:
    sentence = f"{request.method} {request.url.path} is not an endpoint of Ragdoll."
    ways = "These are: /v1/models, /v1/chat/completions, /v1/completions, /v1/embeddings and /v1/search."
    _, reply = replies.refusal(NothingThere(sentence, ways))
    # For a wrong method, the header lists the allowed ones.
    return JSONResponse(reply, getattr(error, "status_code", 404), getattr(error, "headers", None))


async def _broken(request: Request, error: Exception) -> Response:
    """A bug of ours, which the caller logs."""
    told = RagdollError(f"Ragdoll could not do that: {error}.", "See the log, and try again.")
    status, reply = replies.refusal(told)
    return JSONResponse(reply, status)
