"""Tests for engine.api.server and engine.api.service: over HTTP, with an engine that answers as the test wants."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, aclosing, closing, contextmanager
from http.client import HTTPConnection
from itertools import count, repeat
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import requests

from engine.api.requests import ChatRequest, SearchRequest
from engine.api.server import Server
from engine.api.service import SEARCHES_AT_ONCE, Service
from engine.api.vectors import SLICE_TEXTS
from engine.config import ServerSettings, Settings
from engine.core import Answer, Collection, Evidence, Filters, Question, Scope
from engine.embedding import Embedded, EmbeddingModel
from engine.errors import BadRequest, Cancelled, DiskFull, ModelLoadFailed, ModelNotFound, NoCells, RagdollError
from engine.events import AnswerCancelled, AnswerEnded, AnswerFailed, AnswerFinished, Publish, TokensGenerated
from engine.generation.conversation import Turn
from engine.generation.transcript import transcript_of, turns_of_transcript
from engine.metrics import Timings
from engine.protocol import ServerState
from tests.helpers.answers import passage

PATIENCE_S = 60.0
KEY = "secret"
# A model on a share that does not answer until it `lies_there`.
HANGS = "/share/far.gguf"
HELLO = [{"role": "user", "content": "Hello?"}]
TIMINGS = Timings(0.0, 0.0, 0.0, 0.0, 0.0, 10, 2)


class Answering:
    """An engine without models: `pieces` are its answer, `goes_on` lets it end; `refusal` is why it asks nobody."""

    def __init__(self) -> None:
        self.settings = Settings.model_validate(
            {
                "models": {"current": "/m/tiny.gguf", "known": ("/m/tiny.gguf", HANGS)},
                "generation": {"instructions": "Ours."},
            }
        )
        self.pieces: tuple[str, ...] = ("Hel", "lo.")
        self.end: Callable[[str], AnswerEnded] | None = None
        self.refusal: Exception | None = None
        self.asked: list[Question] = []
        self.cancelled: list[str] = []
        self.goes_on, self.was_cancelled = threading.Event(), threading.Event()
        self.goes_on.set()
        self.lies_there, self.looks_at_file = threading.Event(), threading.Event()
        self.listeners: list[Publish] = []
        self.embedder: EmbeddingModel | None = EmbeddingModel("mini", 2)
        self.embedded: list[list[str]] = []
        self.searched: list[str] = []
        self.searched_in: list[tuple[str | None, Filters]] = []
        self.embedding: list[Future[Embedded]] = []
        self.identities: Iterator[int] = repeat(1)

    def subscribe(self, listener: Publish) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def change_settings(self, changes: Mapping[str, Any]) -> Settings:
        (key,) = changes.values()
        self.settings = self.settings.model_copy(
            update={"server": self.settings.server.model_copy(update={"key": key})}
        )
        return self.settings

    def collections(self) -> tuple[Collection, ...]:
        return (Collection("Work", (), {}, 0), Collection("Home", (), {}, 0))

    def embedding_model(self) -> EmbeddingModel | None:
        return self.embedder

    def embed(self, texts: Sequence[str]) -> Future[Embedded]:
        """How long each text is."""
        self.embedded.append(list(texts))
        future = Future[Embedded]()
        if self.goes_on.is_set():
            vectors = np.array([[len(text), 0.0] for text in texts], np.float32)
            future.set_result(Embedded(vectors, 2 * len(texts), "mini", f"mini@{next(self.identities)}"))
        self.embedding.append(future)
        return future

    def search(self, query: str, top_k: int, collection: str | None, filters: Filters) -> Evidence:
        self.searched.append(query)
        self.searched_in.append((collection, filters))
        assert self.goes_on.wait(PATIENCE_S)
        return Evidence((passage(text=query),) * top_k, (), Scope(0, 0, 0))

    def take(self, question: Question) -> Callable[[], None]:
        def hand_over() -> None:
            if question.model == HANGS:
                self.looks_at_file.set()
                assert self.lies_there.wait(2 * PATIENCE_S)
            if self.refusal is not None:
                raise self.refusal
            self.asked.append(question)
            threading.Thread(target=self._answer, args=(question,)).start()

        return hand_over

    def cancel(self, question_id: str) -> None:
        self.cancelled.append(question_id)
        self.was_cancelled.set()
        self._tell(AnswerCancelled(question_id))

    def _answer(self, question: Question) -> None:
        for text in self.pieces:
            self._tell(TokensGenerated(question.question_id, text))
        assert self.goes_on.wait(PATIENCE_S)
        if self.end is not None:
            self._tell(self.end(question.question_id))
            return
        text = "".join(self.pieces)
        segments = transcript_of(Turn(question.text, (), text, searches=question.searches))
        answer = Answer(text, (), (), (), Scope(0, 0, 0), "tiny", "stop", segments)
        self._tell(AnswerFinished(question.question_id, answer, TIMINGS))

    def _tell(self, event: Any) -> None:
        for listener in tuple(self.listeners):
            listener(event)


@pytest.fixture
def engine() -> Answering:
    return Answering()


@pytest.fixture
def server(engine: Answering) -> Iterator[Server]:
    server = Server(engine)  # type: ignore[arg-type]
    server.follow(ServerSettings(enabled=True, port=0, key=KEY))
    assert server.state.problem == ""
    yield server
    engine.goes_on.set()
    engine.lies_there.set()
    server.close()


def post(server: Server, path: str, body: Any, key: str = KEY, **options: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {key}", **options.pop("headers", {})}
    return requests.post(f"{server.state.address}{path}", json=body, headers=headers, timeout=PATIENCE_S, **options)


def chat(server: Server, messages: list[dict[str, str]] = HELLO, **fields: Any) -> requests.Response:
    return post(server, "/chat/completions", {"model": "ragdoll", "messages": messages, **fields})


@contextmanager
def leaving(server: Server, path: str, body: Any) -> Iterator[None]:
    """Asks, and leaves at the end of the block without having waited for the answer."""
    address = urlsplit(server.state.address)
    connection = HTTPConnection(address.netloc, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connection.request("POST", f"{address.path}{path}", json.dumps(body), headers)
    with closing(connection):
        yield


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def pieces(response: requests.Response) -> Iterator[Any]:
    """What a stream tells, as it comes; its end is a word."""
    for line in response.iter_lines(chunk_size=1):
        if line.startswith(b"data: "):
            told = line.removeprefix(b"data: ")
            yield told.decode() if told == b"[DONE]" else json.loads(told)


def streamed(response: requests.Response) -> list[Any]:
    return list(pieces(response))


def test_an_answer_comes_whole(server: Server, engine: Answering):
    reply = chat(server).json()
    assert reply["choices"][0]["message"]["content"] == "Hello."
    assert reply["object"] == "chat.completion"
    assert engine.listeners == []


def test_an_answer_comes_in_pieces_as_it_is_written(server: Server, engine: Answering):
    engine.goes_on.clear()
    body = {"model": "ragdoll", "messages": HELLO, "stream": True, "stream_options": {"include_usage": True}}
    with post(server, "/chat/completions", body, stream=True) as response:
        told = pieces(response)
        first = [next(told)["choices"][0]["delta"] for _ in range(3)]
        assert [delta.get("content") for delta in first] == ["", "Hel", "lo."]
        engine.goes_on.set()
        rest = list(told)
    assert rest[-1] == "[DONE]"
    assert rest[-2]["usage"]["prompt_tokens"] == 10
    assert rest[-3]["choices"][0]["finish_reason"] == "stop"


def test_a_question_is_put_as_the_name_of_the_model_says(server: Server, engine: Answering):
    chat(server, model="tiny", max_tokens=5)
    chat(server, model="none:files/Home")
    chat(server, model="ragdoll", ragdoll={"searches": True, "collection": "Work", "passages": 3})
    alone, quotes, from_work = engine.asked
    told = (alone.model, alone.searches, alone.is_verbatim, alone.sampling.max_tokens)
    assert told == ("/m/tiny.gguf", False, True, 5)
    assert (quotes.model, quotes.searches, quotes.collection, quotes.is_verbatim) == ("none", True, "Home", False)
    assert (from_work.model, from_work.searches, from_work.collection, from_work.top_k) == ("", True, "Work", 3)


def test_a_model_by_itself_is_told_what_the_application_tells_it(server: Server, engine: Answering):
    system = [{"role": "system", "content": "Theirs."}]
    chat(server)
    chat(server, system + HELLO)
    chat(server, model="ragdoll:files")
    chat(server, system + HELLO, model="ragdoll:files")
    assert [question.instructions for question in engine.asked] == ["", "Theirs.", "Ours.", "Theirs."]


def test_many_at_once_let_somebody_at_the_window_go_first(server: Server, engine: Answering):
    engine.goes_on.clear()
    body = {"model": "ragdoll", "messages": HELLO, "stream": True}
    streams = []
    for _ in range(4):
        streams.append(pieces(post(server, "/chat/completions", body, stream=True)))
        next(streams[-1])
    engine.goes_on.set()
    assert [list(stream)[-1] for stream in streams] == ["[DONE]"] * 4
    chat(server)
    priorities = [question.priority for question in engine.asked]
    assert priorities == ["interactive", "interactive", "batch", "batch", "interactive"]


def test_a_conversation_goes_on_from_what_is_remembered(server: Server, engine: Answering):
    chat(server)
    chat(server, [*HELLO, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And?"}])
    first, second = engine.asked
    assert second.transcript == transcript_of(Turn("Hello?", (), "Hello.", searches=False))
    assert second.conversation_id == first.conversation_id


def test_a_question_is_put_to_several_collections(server: Server, engine: Answering):
    chat(server, model="ragdoll:files/Home", ragdoll={"collections": ["Work", "Tea", "Work"]})
    chat(server, model="ragdoll:files", ragdoll={"collections": ["Work"], "formats": ["pdf"]})
    chat(server, model="ragdoll:files/Home", ragdoll={"collection": "Work", "collections": ["Tea"]})
    chat(server, model="ragdoll:files/Home", ragdoll={"collections": []})
    told = [(question.collection, question.filters.collections) for question in engine.asked]
    assert told == [(None, ("Work", "Tea")), ("Work", ()), (None, ("Work", "Tea")), ("Home", ())]
    assert engine.asked[1].filters.formats == ("pdf",)


def test_a_conversation_goes_on_where_no_collection_is_left_out(server: Server, engine: Answering):
    words = [*HELLO, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And?"}]

    def ask(messages: list[dict[str, str]], *names: str) -> str:
        chat(server, messages, model="ragdoll:files", ragdoll={"collections": names})
        return engine.asked[-1].conversation_id

    first = ask(HELLO, "Work", "Home")
    assert ask(words, "Home", "Tea", "Work") == ask(words, "Home", "Work") == ask(words) == first
    assert first not in {ask(words, "Work"), ask(words, "Work", "Tea")}


def test_one_about_another_collection_is_told_only_what_was_said(server: Server, engine: Answering):
    chat(server, model="ragdoll:files/Home")
    words = [*HELLO, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And?"}]
    for name in ("ragdoll:files/Work", "ragdoll:files/Home", "ragdoll:files"):
        chat(server, words, model=name)
    first, elsewhere, again, everywhere = engine.asked
    assert [turn.searches for turn in turns_of_transcript(elsewhere.transcript, ())] == [False]
    assert elsewhere.conversation_id != first.conversation_id
    assert again.conversation_id == everywhere.conversation_id == first.conversation_id
    chat(server, words, model="ragdoll:files/Home", ragdoll={"formats": ["pdf"]})
    assert engine.asked[-1].conversation_id != first.conversation_id


def test_so_does_one_whose_stream_was_left_at_its_last_word(engine: Answering):
    service = Service(engine, "")  # type: ignore[arg-type]

    async def leave_at_the_end() -> None:
        async with aclosing(service._pieces(service._asking(wanted(HELLO)), tells_usage=False)) as told:
            async for piece in told:
                if '"finish_reason": "stop"' in piece:
                    return

    asyncio.run(leave_at_the_end())
    following = [*HELLO, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And?"}]
    again = service._asking(wanted(following)).question
    assert again.conversation_id == engine.asked[0].conversation_id


def wanted(messages: list[dict[str, str]]) -> ChatRequest:
    return ChatRequest.model_validate({"model": "ragdoll", "messages": messages})


def test_so_does_one_that_was_streamed(server: Server, engine: Answering):
    streamed(chat(server, stream=True))
    chat(server, [*HELLO, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And?"}])
    first, second = engine.asked
    assert second.transcript == transcript_of(Turn("Hello?", (), "Hello.", searches=False))
    assert second.conversation_id == first.conversation_id


def test_who_leaves_wants_no_answer(server: Server, engine: Answering):
    engine.goes_on.clear()
    with leaving(server, "/chat/completions", {"model": "ragdoll", "messages": HELLO}):
        wait_until(lambda: engine.asked)
    assert engine.was_cancelled.wait(PATIENCE_S)
    assert engine.cancelled == [engine.asked[0].question_id]


def test_who_leaves_a_stream_wants_no_more_of_it(server: Server, engine: Answering):
    engine.goes_on.clear()
    response = post(server, "/chat/completions", {"model": "ragdoll", "messages": HELLO, "stream": True}, stream=True)
    next(response.iter_lines())
    response.close()
    assert engine.was_cancelled.wait(PATIENCE_S)


@pytest.mark.parametrize("stream", [False, True])
def test_who_leaves_while_a_file_is_looked_at_wants_no_answer(server: Server, engine: Answering, stream: bool):
    with leaving(server, "/chat/completions", {"model": "far", "messages": HELLO, "stream": stream}):
        assert engine.looks_at_file.wait(PATIENCE_S)
    assert engine.was_cancelled.wait(PATIENCE_S)


def test_a_file_that_cannot_be_looked_at_holds_up_nobody_else(server: Server, engine: Answering):
    with ThreadPoolExecutor(40) as pool:
        far = [pool.submit(chat, server, model="far") for _ in range(40)]
        near = pool.submit(chat, server, model="tiny")
        assert chat(server, model="tiny").ok
        engine.lies_there.set()
        assert near.result().ok
        assert all(one.result().ok for one in far)


def test_a_refused_question_is_told_before_anything_is_sent(server: Server, engine: Answering):
    engine.refusal = ModelNotFound("There is no such model.")
    for stream in (False, True):
        response = chat(server, stream=stream)
        assert response.status_code == 404
        assert response.json()["error"]["message"] == "There is no such model."
    assert engine.listeners == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ModelLoadFailed("It cannot be loaded."), "false"),
        (DiskFull("There is no room."), None),
        (NoCells("The context is full.", "Ask again in a while."), None),
    ],
)
def test_what_no_repetition_mends_is_not_to_be_repeated(
    server: Server, engine: Answering, error: RagdollError, told: str | None
):
    engine.end = lambda question_id: AnswerFailed(question_id, error)
    response = chat(server)
    assert (response.status_code, response.headers.get("x-should-retry")) == (500, told)
    engine.refusal = ModelNotFound("There is no such model.")
    assert "x-should-retry" not in chat(server).headers


@pytest.mark.parametrize(
    ("body", "question"),
    [
        (b'\xef\xbb\xbf{"model": "ragdoll", "messages": [{"role": "user", "content": "Hello?"}]}', "Hello?"),
        # As JavaScript writes what was cut within a character.
        (
            rb'{"model": "ragdoll", "messages": [{"role": "user", "content": "Hello \ud83d"}]}',
            "Hello \N{REPLACEMENT CHARACTER}",
        ),
    ],
)
def test_what_others_forgive_is_read(server: Server, engine: Answering, body: bytes, question: str):
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    response = requests.post(f"{server.state.address}/chat/completions", data=body, headers=headers, timeout=PATIENCE_S)
    assert (response.status_code, engine.asked[0].text) == (200, question)


@pytest.mark.parametrize("body", [b"{", b'{"model": "\xff"}', b"[" * 100_000, b'\xef\xbb\xbf{"model": "ragdoll"}'])
def test_what_is_no_request_is_refused(server: Server, body: bytes):
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    response = requests.post(f"{server.state.address}/chat/completions", data=body, headers=headers, timeout=PATIENCE_S)
    assert response.status_code == 400
    assert "cannot be read" in response.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/chat/completions", "/search"])
def test_a_word_for_no_format_is_refused(server: Server, path: str):
    where = {"formats": ["pfd"]}
    response = post(
        server, path, {"query": "rent", "messages": HELLO, "model": "ragdoll:files", "ragdoll": where, **where}
    )
    assert response.status_code == 400
    assert "'pfd'" in response.json()["error"]["message"]


@pytest.mark.expects_warnings
@pytest.mark.parametrize("stream", [False, True])
def test_what_nobody_foresaw_is_told_in_the_form_of_errors(server: Server, engine: Answering, stream: bool):
    engine.refusal = ValueError("odd")
    response = chat(server, stream=stream)
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    assert "odd" in response.json()["error"]["message"]
    assert engine.listeners == []


def test_an_answer_that_fails_says_why(server: Server, engine: Answering):
    engine.end = lambda question_id: AnswerFailed(question_id, BadRequest("It cannot be."))
    assert chat(server).json()["error"]["message"] == "It cannot be."
    assert streamed(chat(server, stream=True))[-1]["error"]["message"] == "It cannot be."


def test_an_answer_that_was_stopped_elsewhere_says_so(server: Server, engine: Answering):
    engine.end = lambda question_id: AnswerCancelled(question_id)
    assert "stopped" in chat(server).json()["error"]["message"]


def test_without_a_model_there_is_a_way_out(server: Server, engine: Answering):
    engine.settings = Settings()
    response = chat(server)
    assert response.status_code == 404
    assert "ragdoll:files" in response.json()["error"]["message"]
    assert chat(server, model="ragdoll:files").status_code == 200


@pytest.mark.parametrize("name", ["gpt-4o", "~nobody/m.gguf", "/dev/zero"])
def test_models_that_are_not_known_are_not_looked_for(server: Server, engine: Answering, name: str):
    response = chat(server, model=name)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    assert engine.asked == []


def test_models_are_listed_with_what_they_can_read(server: Server):
    headers = {"Authorization": f"Bearer {KEY}"}
    listed = requests.get(f"{server.state.address}/models", headers=headers, timeout=PATIENCE_S).json()
    names = [model["id"] for model in listed["data"]]
    assert "tiny:files/Work" in names
    for name in ("tiny", "tiny:files/Work"):
        one = requests.get(f"{server.state.address}/models/{name}", headers=headers, timeout=PATIENCE_S).json()
        assert one["id"] == name
    assert requests.get(f"{server.state.address}/models/x", headers=headers, timeout=PATIENCE_S).status_code == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chat/completions", {"model": "tiny", "messages": HELLO, "ragdoll": {"collection": "Work"}}),
        ("/chat/completions", {"model": "ragdoll:files", "messages": HELLO, "ragdoll": {"colection": "Work"}}),
        ("/chat/completions", {"model": "tiny", "messages": HELLO, "ragdoll": {"collections": ["Work", "Tea"]}}),
        ("/chat/completions", {"model": "ragdoll:files", "messages": HELLO, "ragdoll": {"collections": "Work"}}),
        ("/search", {"query": "a", "ragdoll": {"path": ["/docs"]}}),
        ("/completions", {"model": "tiny", "prompt": "Once", "ragdoll": {"formats": ["pdf"]}}),
        ("/chat/completions", {"model": "x:files", "messages": HELLO, "ragdoll": {"searches": False, "paths": ["/a"]}}),
    ],
)
def test_nobody_is_answered_from_elsewhere_than_asked_for(server: Server, engine: Answering, path: str, body: Any):
    refused = post(server, path, body)
    assert refused.status_code == 400, refused.text
    assert (engine.asked, engine.searched) == ([], [])


def test_a_search_is_confined_as_a_question_is(server: Server, engine: Answering):
    for body in ({"collection": "Work"}, {"ragdoll": {"collection": "Work"}}, {"ragdoll": {"paths": ["/a"]}}):
        assert post(server, "/search", {"query": "a", "paths": ["/b"], "model": "any", **body}).ok
    wanted = [("Work", ("/b",)), ("Work", ("/b",)), (None, ("/a",))]
    assert [(collection, filters.paths) for collection, filters in engine.searched_in] == wanted
    assert len(post(server, "/search", {"query": "a", "ragdoll": {"passages": 3}}).json()["passages"]) == 3


@pytest.mark.parametrize("scheme", ["bearer", "BEARER ", "Bearer"])
def test_what_is_written_otherwise_and_means_the_same_is_understood(server: Server, scheme: str):
    headers = {"Authorization": f"{scheme} {KEY}", "Content-Type": "Application/JSON; charset=utf-8"}
    address = f"{server.state.address}/search"
    assert requests.post(address, data=b'{"query": "a"}', headers=headers, timeout=PATIENCE_S).ok
    refused = requests.get(address, headers=headers, timeout=PATIENCE_S)
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")


def test_passages_can_be_searched_for(server: Server):
    reply = post(server, "/search", {"query": "notice", "top_k": 2}).json()
    assert [one["text"] for one in reply["passages"]] == ["notice"] * 2


# --- texts to go on from ---


def complete(server: Server, prompt: Any = "Once", **fields: Any) -> requests.Response:
    return post(server, "/completions", {"model": "tiny", "prompt": prompt, **fields})


def test_a_script_that_searches_holds_up_nobody_who_asks_and_is_left_what_it_has_left(
    server: Server, engine: Answering, monkeypatch: pytest.MonkeyPatch
):
    engine.goes_on.clear()
    begun, left, found = list[str](), threading.Semaphore(0), Service._found

    async def found_unless_left(service: Service, wanted: SearchRequest) -> Evidence:
        begun.append(wanted.query)
        try:
            return await found(service, wanted)
        except asyncio.CancelledError:
            left.release()
            raise

    monkeypatch.setattr(Service, "_found", found_unless_left)
    with ThreadPoolExecutor(1) as pool, ExitStack() as searches:
        for number in range(20):
            searches.enter_context(leaving(server, "/search", {"query": str(number)}))
        asking = pool.submit(chat, server)
        wait_until(lambda: engine.asked and len(begun) == 20)
        assert len(engine.searched) <= SEARCHES_AT_ONCE
        searches.close()
        for _ in begun:
            assert left.acquire(timeout=PATIENCE_S)
        engine.goes_on.set()
        assert asking.result(PATIENCE_S).ok
    assert post(server, "/search", {"query": "last"}).ok
    assert len(engine.searched) <= SEARCHES_AT_ONCE + 1, "what nobody waits for is not begun"


def test_who_waits_for_a_search_is_told_that_it_ends(engine: Answering):
    service = Service(engine, "")  # type: ignore[arg-type]
    engine.goes_on.clear()

    async def search_until_it_ends() -> None:
        wanted = SearchRequest.model_validate({"query": "a"})
        searching = [asyncio.ensure_future(service._found(wanted)) for _ in range(SEARCHES_AT_ONCE + 1)]
        await asyncio.sleep(0.05)
        service.stop_all()
        engine.goes_on.set()
        with pytest.raises(Cancelled):
            await searching[-1]
        assert (await searching[0]).passages
        with pytest.raises(Cancelled):
            await service._found(wanted)

    asyncio.run(search_until_it_ends())


def test_a_text_is_gone_on_from_by_a_model_by_itself(server: Server, engine: Answering):
    reply = complete(server, max_tokens=3).json()
    assert reply["choices"] == [{"index": 0, "text": "Hello.", "finish_reason": "stop", "logprobs": None}]
    (question,) = engine.asked
    told = (question.text, question.model, question.searches, question.is_raw, question.instructions)
    assert told == ("Once", "/m/tiny.gguf", False, True, "")
    assert (question.sampling.max_tokens, question.priority) == (3, "interactive")


def test_several_texts_are_gone_on_from_together(server: Server, engine: Answering):
    reply = complete(server, ["One", "Two", "Three"]).json()
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    assert reply["usage"]["completion_tokens"] == 6
    assert {question.text for question in engine.asked} == {"One", "Two", "Three"}
    assert {question.priority for question in engine.asked} == {"batch"}


def test_where_one_of_several_fails_the_others_are_not_wanted(server: Server, engine: Answering):
    engine.end = lambda question_id: AnswerFailed(question_id, BadRequest("It cannot be."))
    response = complete(server, ["One", "Two"])
    assert response.json()["error"]["message"] == "It cannot be."
    # One may have failed before the other was asked.
    assert {question.question_id for question in engine.asked} <= set(engine.cancelled)


def test_a_text_is_written_in_pieces(server: Server, engine: Answering):
    told = streamed(complete(server, stream=True, stream_options={"include_usage": True}))
    assert told[-1] == "[DONE]"
    assert told[-2]["usage"]["prompt_tokens"] == 10
    assert "".join(piece["choices"][0]["text"] for piece in told[:-2]) == "Hello."
    assert told[-3]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("fields", "status"), [({"model": "tiny:files"}, 400), ({"model": "gpt"}, 404), ({"echo": True}, 400)]
)
def test_texts_that_cannot_be_gone_on_from_are_refused(
    server: Server, engine: Answering, fields: dict[str, Any], status: int
):
    assert complete(server, **fields).status_code == status
    assert engine.asked == []


# --- vectors ---


def embed(server: Server, texts: Any, **fields: Any) -> requests.Response:
    return post(server, "/embeddings", {"model": "mini", "input": texts, **fields})


def test_texts_are_embedded_in_their_order_and_others_come_in_between(server: Server, engine: Answering):
    texts = ["x" * (1 + number % 7) for number in range(2 * SLICE_TEXTS + 1)]
    reply = embed(server, texts, dimensions=2).json()
    assert [one["embedding"] for one in reply["data"]] == [[float(len(text)), 0.0] for text in texts]
    assert reply["usage"]["prompt_tokens"] == 2 * len(texts)
    assert [len(some) for some in engine.embedded] == [SLICE_TEXTS, SLICE_TEXTS, 1]


def test_the_embedding_model_is_listed_and_can_be_left_unnamed(server: Server, engine: Answering):
    headers = {"Authorization": f"Bearer {KEY}"}
    listed = requests.get(f"{server.state.address}/models", headers=headers, timeout=PATIENCE_S).json()
    assert listed["data"][-1]["id"] == "mini"
    assert embed(server, "one", model="").json()["model"] == "mini"
    assert requests.get(f"{server.state.address}/models/mini", headers=headers, timeout=PATIENCE_S).ok
    engine.embedder = None
    listed = requests.get(f"{server.state.address}/models", headers=headers, timeout=PATIENCE_S).json()
    assert "mini" not in [model["id"] for model in listed["data"]]


@pytest.mark.parametrize(
    ("fields", "status", "why"),
    [
        ({"model": "ragdoll"}, 404, "'mini'"),
        ({"model": "text-embedding-3-small"}, 404, "'text-embedding-3-small'"),
        ({"dimensions": 1}, 400, "2 dimensions"),
        ({"input": [1, 2]}, 400, "tokens"),
        ({"input": None}, 400, "input"),
        ({"encoding_format": "int8"}, 400, "encoding_format"),
    ],
)
def test_vectors_that_are_not_to_be_had_are_refused(
    server: Server, engine: Answering, fields: dict[str, Any], status: int, why: str
):
    response = embed(server, **{"texts": fields.pop("input", "one"), **fields})
    assert response.status_code == status
    assert why in response.json()["error"]["message"]
    assert engine.embedded == []


def test_without_an_embedding_model_there_is_a_way_out(server: Server, engine: Answering):
    engine.embedder = None
    response = embed(server, "one")
    assert response.status_code == 404
    assert "settings" in response.json()["error"]["message"]


def test_vectors_of_two_models_are_not_mixed(server: Server, engine: Answering):
    engine.identities = count()
    response = embed(server, ["one"] * (SLICE_TEXTS + 1))
    assert response.status_code == 404
    assert "another embedding model" in response.json()["error"]["message"]


def test_who_leaves_wants_no_more_vectors(server: Server, engine: Answering):
    engine.goes_on.clear()
    with leaving(server, "/embeddings", {"input": ["one"] * (SLICE_TEXTS + 1)}):
        wait_until(lambda: engine.embedding)
    (first,) = engine.embedding
    with pytest.raises(CancelledError):
        first.result(PATIENCE_S)
    assert len(engine.embedded) == 1


def test_vectors_that_take_long_hold_up_no_answer(server: Server, engine: Answering):
    engine.goes_on.clear()
    with ThreadPoolExecutor(40) as pool:
        slow = [pool.submit(embed, server, "one") for _ in range(40)]
        while len(engine.embedding) < 40:
            time.sleep(0.01)
        engine.goes_on.set()
        assert chat(server).ok
        for future in engine.embedding:
            future.set_result(Embedded(np.zeros((1, 2), np.float32), 1, "mini", "mini@1"))
        assert all(one.result().ok for one in slow)


def test_vectors_that_the_engine_makes_no_more_are_told_so(server: Server, engine: Answering):
    engine.goes_on.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(embed, server, "one")
        while not engine.embedding:
            time.sleep(0.01)
        engine.embedding[0].cancel()
        engine.embedding[0].set_running_or_notify_cancel()
        assert waiting.result().json()["error"]["code"] == "Cancelled"


def test_who_waits_for_vectors_is_told_that_it_ends(engine: Answering):
    server = Server(engine)  # type: ignore[arg-type]
    server.follow(ServerSettings(enabled=True, port=0, key=KEY))
    engine.goes_on.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(embed, server, ["one"] * (SLICE_TEXTS + 1))
        while not engine.embedding:
            time.sleep(0.01)
        server.follow(ServerSettings(enabled=True, port=0, key="another"))
        assert waiting.result().json()["error"]["code"] == "Cancelled"
    assert len(engine.embedded) == 1
    engine.goes_on.set()
    server.close()


# --- who may ask ---


@pytest.mark.parametrize("key", ["", "other"])
def test_without_the_key_nothing_is_answered(server: Server, engine: Answering, key: str):
    assert post(server, "/chat/completions", {"messages": HELLO}, key=key).status_code == 401
    assert post(server, "/search", {"query": "a"}, key=key).status_code == 401
    assert post(server, "/embeddings", {"input": "a"}, key=key).status_code == 401
    assert post(server, "/completions", {"prompt": "a"}, key=key).status_code == 401
    assert requests.get(f"{server.state.address}/models", timeout=PATIENCE_S).status_code == 401
    assert engine.asked == []


def test_a_key_may_have_any_letters(engine: Answering):
    server = Server(engine)  # type: ignore[arg-type]
    try:
        server.follow(ServerSettings(enabled=True, port=0, key="Schlüssel für zuhause"))
        sent = "Schlüssel für zuhause".encode().decode("latin-1")
        assert post(server, "/search", {"query": "a"}, key=sent).ok
        assert post(server, "/search", {"query": "a"}, key="Schluessel").status_code == 401
    finally:
        server.close()


def test_a_page_in_a_browser_gets_nothing(server: Server, engine: Answering):
    # What a page can send without being asked: another type, or to a name that was made to lead here.
    body = json.dumps({"messages": HELLO}).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "text/plain"}
    address = f"{server.state.address}/chat/completions"
    assert requests.post(address, data=body, headers=headers, timeout=PATIENCE_S).status_code == 400
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", "Host": "rebound.example"}
    assert requests.post(address, data=body, headers=headers, timeout=PATIENCE_S).status_code == 400
    headers = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    asked = requests.options(address, headers=headers, timeout=PATIENCE_S)
    assert "access-control-allow-origin" not in asked.headers
    assert engine.asked == []


@pytest.mark.parametrize("body", [{}, {"messages": "Hello"}, {"messages": HELLO, "n": "many"}])
def test_what_is_no_request_is_told_so(server: Server, body: Any):
    response = post(server, "/chat/completions", body)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_a_body_beyond_all_measure_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.api.service.MAX_BODY_BYTES", 100)
    assert chat(server, [{"role": "user", "content": "x" * 200}]).status_code == 400


def test_what_is_not_answered_says_what_is(server: Server):
    response = post(server, "/images", {"prompt": "Once"})
    assert response.status_code == 404
    assert "/v1/chat/completions" in response.json()["error"]["message"]


def test_a_silent_stream_is_told_to_be_alive(server: Server, engine: Answering, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.api.service.BEAT_S", 0.05)
    engine.goes_on.clear()
    body = {"model": "ragdoll", "messages": HELLO, "stream": True}
    with post(server, "/chat/completions", body, stream=True) as response:
        assert any(line.startswith(b":") for line in response.iter_lines())


# --- following the settings ---


def is_open(address: str) -> bool:
    try:
        return requests.get(address.replace("/v1", "/health"), timeout=PATIENCE_S).ok
    except requests.exceptions.ConnectionError:
        return False


def test_it_starts_moves_and_stops_as_the_settings_say(engine: Answering):
    told: list[ServerState] = []
    server = Server(engine, told.append)  # type: ignore[arg-type]
    server.follow(ServerSettings())
    assert server.state == ServerState()
    server.follow(ServerSettings(enabled=True, port=0, key=KEY))
    first = server.state.address
    assert is_open(first)
    server.follow(ServerSettings(enabled=True, port=0, key="another"))
    assert is_open(server.state.address)
    assert server.state.address == first or not is_open(first)
    last = server.state.address
    server.follow(ServerSettings(port=0))
    assert not is_open(last)
    assert told[-1] == ServerState()
    server.close()
    server.follow(ServerSettings(enabled=True, port=0, key=KEY))
    assert server.state == ServerState(), "what is closed stays closed"


def test_what_is_told_last_is_how_it_stands(engine: Answering):
    told: list[ServerState] = []
    off = threading.Thread(target=lambda: server.follow(ServerSettings()))

    def tell(state: ServerState) -> None:
        if state.address:
            off.start()
            # Whoever follows at the same time would have told by now.
            off.join(0.5)
        told.append(state)

    server = Server(engine, tell)  # type: ignore[arg-type]
    server.follow(ServerSettings(enabled=True, port=0, key=KEY))
    off.join()
    assert told[-1] == server.state == ServerState()
    server.close()


def test_a_key_is_made_when_it_is_first_needed(engine: Answering):
    server = Server(engine)  # type: ignore[arg-type]
    try:
        settings = server.follow(ServerSettings(enabled=True, port=0))
        assert len(settings.key) > 20
        assert engine.settings.server.key == settings.key
        assert post(server, "/search", {"query": "a"}, key=settings.key).ok
    finally:
        server.close()


@pytest.mark.expects_warnings
def test_a_key_that_cannot_be_kept_is_told_and_nobody_gets_in_without(
    engine: Answering, monkeypatch: pytest.MonkeyPatch
):
    told: list[ServerState] = []
    server = Server(engine, told.append)  # type: ignore[arg-type]

    def full(changes: object) -> Settings:
        raise DiskFull("The disk is full.")

    with monkeypatch.context() as patches:
        patches.setattr(engine, "change_settings", full)
        server.follow(ServerSettings(enabled=True, port=0))
    assert told == [ServerState(problem="The disk is full.")]
    assert server.state.address == ""
    server.follow(ServerSettings(enabled=True, port=0))
    assert is_open(server.state.address), "once there is room, it is tried again"
    server.close()


def test_none_is_asked_for_where_none_is_needed(engine: Answering):
    server = Server(engine)  # type: ignore[arg-type]
    try:
        server.follow(ServerSettings(enabled=True, port=0, needs_key=False))
        assert post(server, "/search", {"query": "a"}, key="").ok
        assert engine.settings.server.key == ""
    finally:
        server.close()


@pytest.mark.expects_warnings
def test_a_port_that_is_taken_is_told_with_a_way_out(engine: Answering):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        server = Server(engine)  # type: ignore[arg-type]
        server.follow(ServerSettings(enabled=True, port=other.getsockname()[1], key=KEY))
        assert server.state.address == ""
        assert "another port" in server.state.problem
        server.close()


@pytest.mark.expects_warnings
def test_where_the_system_has_no_more_for_it_that_is_told_and_it_is_tried_again(
    engine: Answering, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("engine.api.server.RETRY_S", 0.02)
    stands = threading.Event()
    told: list[ServerState] = []

    def tell(state: ServerState) -> None:
        told.append(state)
        if state.address:
            stands.set()

    def exhausted(*arguments: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    server = Server(engine, tell)  # type: ignore[arg-type]
    settings = ServerSettings(enabled=True, port=0, key=KEY)
    with monkeypatch.context() as patches:
        patches.setattr("engine.api.server.socket.socket", exhausted)
        server.follow(settings)
        assert server.state.address == ""
        assert "Too many open files" in server.state.problem
        assert not stands.is_set()
    assert stands.wait(PATIENCE_S)
    assert is_open(server.state.address)
    server.close()


@pytest.mark.expects_warnings
def test_a_server_that_ends_by_itself_is_told_and_begun_anew(engine: Answering, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.api.server.RETRY_S", 0.02)
    told: list[ServerState] = []
    was_told = threading.Semaphore(0)

    def tell(state: ServerState) -> None:
        told.append(state)
        was_told.release()

    server = Server(engine, tell)  # type: ignore[arg-type]
    server.follow(ServerSettings(enabled=True, port=0, key=KEY))
    assert server._running is not None
    server._running._server.should_exit = True
    for _ in range(3):
        assert was_told.acquire(timeout=PATIENCE_S)
    assert [bool(state.problem) for state in told] == [False, True, False]
    assert is_open(server.state.address)
    server.close()


@pytest.mark.expects_warnings
def test_a_port_is_had_as_soon_as_it_is_free(engine: Answering, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.api.server.RETRY_S", 0.02)
    told: list[ServerState] = []
    was_told, tries = threading.Event(), threading.Semaphore(0)

    def tell(state: ServerState) -> None:
        told.append(state)
        was_told.set()

    def look(server: Server, settings: ServerSettings, started: Any = Server._started) -> ServerState:
        tries.release()
        return started(server, settings)

    monkeypatch.setattr(Server, "_started", look)
    server = Server(engine, tell)  # type: ignore[arg-type]
    with socket.create_server(("127.0.0.1", 0)) as other:
        engine.settings = engine.settings.model_copy(
            update={"server": ServerSettings(enabled=True, port=other.getsockname()[1], key=KEY)}
        )
        server.follow()
        for _ in range(3):
            assert tries.acquire(timeout=PATIENCE_S)
        assert [bool(state.problem) for state in told] == [True], "it is told once"
        was_told.clear()
    assert was_told.wait(PATIENCE_S)
    assert told[1:] == [server.state]
    assert is_open(server.state.address)
    server.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("ends", [lambda server: server.follow(ServerSettings()), lambda server: server.close()])
def test_nobody_tries_for_a_port_that_is_not_wanted_any_more(
    engine: Answering, monkeypatch: pytest.MonkeyPatch, ends: Callable[[Server], object]
):
    timers: list[threading.Timer] = []

    class Timer(threading.Timer):
        """Comes when a test wants it to, and was cancelled too late."""

        def start(self) -> None:
            timers.append(self)

        def cancel(self) -> None:
            pass

    monkeypatch.setattr("engine.api.server.RETRY_S", 0.0)
    monkeypatch.setattr("engine.api.server.threading.Timer", Timer)
    server = Server(engine)  # type: ignore[arg-type]
    with socket.create_server(("127.0.0.1", 0)) as other:
        server.follow(ServerSettings(enabled=True, port=other.getsockname()[1], key=KEY))
    ends(server)
    (late,) = timers
    threading.Thread.start(late)
    late.join()
    assert server.state == ServerState()
    server.close()


def test_who_waits_is_told_that_it_ends(engine: Answering):
    server = Server(engine)  # type: ignore[arg-type]
    server.follow(ServerSettings(enabled=True, port=0, key=KEY))
    engine.goes_on.clear()
    with ThreadPoolExecutor(2) as pool:
        whole = pool.submit(chat, server)
        in_pieces = pool.submit(lambda: streamed(chat(server, stream=True)))
        while len(engine.asked) < 2:
            time.sleep(0.01)
        server.follow(ServerSettings(enabled=True, port=0, key="another"))
        assert whole.result().json()["error"]["code"] == "Cancelled"
        assert in_pieces.result()[-1]["error"]["code"] == "Cancelled"
    engine.goes_on.set()
    server.close()


def test_it_ends_although_somebody_listens(engine: Answering):
    server = Server(engine)  # type: ignore[arg-type]
    server.follow(ServerSettings(enabled=True, port=0, key=KEY))
    engine.goes_on.clear()
    body = {"model": "ragdoll", "messages": HELLO, "stream": True}
    with post(server, "/chat/completions", body, stream=True) as response:
        next(response.iter_lines())
        started = time.monotonic()
        server.close()
        assert time.monotonic() - started < PATIENCE_S
        assert engine.was_cancelled.wait(PATIENCE_S)
    engine.goes_on.set()
