"""A stand-in for `python -m engine` that speaks the protocol from a script; run it by its path.

Behaviours, as arguments (several can be combined; without any it is a well-behaved engine):

    --version N          announces protocol version N
    --strange-ready      announces version 99 in a `ready` that has none of our other fields
    --never-ready        says nothing at all
    --silent             answers one ping and no other
    --never-pong         answers no ping
    --silent-in-phase P  declares phase P and never answers a ping
    --garbage N          says N lines that are no messages after `ready`
    --flood N            says N notices after `ready`
    --exit CODE          exits right after `ready`
    --exit-at-once CODE  exits before `ready`
    --exit-unless-careful CODE  likewise, unless --careful is given
    --abort              aborts right after `ready`
    --die-on METHOD      is killed when that request comes
    --die-answering      says half an answer to each question, then is killed
    --die-once FILE      as above, but only while FILE does not exist; then it exists
    --deaf               ignores shutdown, the end of its input and SIGTERM
    --stderr TEXT        writes TEXT to standard error
    --careful            as the window passes it on

`settings.get` is answered with what the process has heard so far: {"methods": [...], "is_careful", "home"}.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine import protocol, wire
from engine.protocol import Notice
from engine.wire import Request

PIECES = ("Half ", "an ", "answer")


class ScriptedEngine:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.methods: list[str] = []

    def run(self) -> None:
        options = self.options
        if options.deaf:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if options.stderr:
            sys.stderr.write(options.stderr + "\n")
            sys.stderr.flush()
        if options.exit_at_once is not None:
            sys.exit(options.exit_at_once)
        if options.exit_unless_careful is not None and not options.careful:
            sys.exit(options.exit_unless_careful)
        if not options.never_ready:
            self.open()
        self.serve()

    def open(self) -> None:
        options = self.options
        if options.strange_ready:
            say(b'{"method": "ready", "params": {"protocol_version": 99}}\n')
        else:
            version = options.version
            notify(protocol.Ready(protocol_version=version, pid=os.getpid(), engine_version="scripted"))
        if options.silent_in_phase:
            notify(protocol.Phase(phase=options.silent_in_phase))
        for number in range(options.garbage):
            say(b"llama_model_loader: line %d\n" % number)
        for number in range(options.flood):
            notify(protocol.Log(level="info", message=str(number)))
        if options.exit is not None:
            sys.exit(options.exit)
        if options.abort:
            os.abort()

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            request = wire.decode_request(line)
            if request.method is protocol.SHUTDOWN and not self.options.deaf:
                say(wire.encode_result(request.id, protocol.Nothing()))
                return
            self.handle(request)
        while self.options.deaf:
            time.sleep(0.05)

    def handle(self, request: Request) -> None:
        options, method = self.options, request.method
        self.methods.append(method.name)
        if method.name == options.die_on and self.may_die():
            die()
        if method is protocol.PING:
            has_gone_silent = options.silent and "ping" in self.methods[:-1]
            if not (has_gone_silent or options.silent_in_phase or options.never_pong):
                say(wire.encode_result(request.id, protocol.Pong()))
        elif method is protocol.ASK:
            self.answer(request)
        else:
            say(wire.encode_result(request.id, self.result(request)))

    def answer(self, request: Request) -> None:
        question_id = request.params.question_id
        say(wire.encode_result(request.id, protocol.Nothing()))
        notify(protocol.AnswerState(question_id=question_id, state="writing"))
        for piece in PIECES:
            notify(protocol.AnswerTokens(question_id=question_id, text=piece))
        if self.options.die_answering and self.may_die():
            die()
        answer = protocol.Answer(
            text="".join(PIECES),
            quotes=(),
            citations=(),
            passages=(),
            scope=protocol.Scope(0, 0, 0),
            model="scripted",
            finish_reason="stop",
            segments=({"question": request.params.text},),
        )
        timings = protocol.Timings(
            queued_s=0, retrieval_s=0, prefill_s=0, ttft_s=0, total_s=0, prompt_tokens=1, generated_tokens=3
        )
        notify(protocol.AnswerFinished(question_id=question_id, answer=answer, timings=timings))

    def result(self, request: Request) -> protocol.Message:
        method = request.method
        if method is protocol.LIBRARY:
            return protocol.LibraryReply(collections=(), disk_bytes=0)
        if method is protocol.DOCUMENTS:
            return protocol.DocumentsReply(documents=(), total=0)
        if method is protocol.MODELS:
            return protocol.ModelsReply(models=(), current="")
        if method is protocol.MEMORY:
            return protocol.MemoryReply(tiers=())
        if method is protocol.SETTINGS_GET:
            home = os.environ.get("RAGDOLL_HOME", "")
            heard = {"methods": self.methods, "is_careful": self.options.careful, "home": home}
            return protocol.SettingsReply(settings=heard)
        return protocol.Nothing()

    def may_die(self) -> bool:
        file = self.options.die_once
        if file is None:
            return True
        if file.exists():
            return False
        file.touch()
        return True


def notify(notice: Notice) -> None:
    say(wire.encode_notice(notice))


def say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", type=int, default=protocol.PROTOCOL_VERSION)
    for flag in ("strange-ready", "never-ready", "never-pong", "silent", "abort", "die-answering", "deaf", "careful"):
        parser.add_argument(f"--{flag}", action="store_true")
    for number in ("garbage", "flood"):
        parser.add_argument(f"--{number}", type=int, default=0)
    for code in ("exit", "exit-at-once", "exit-unless-careful"):
        parser.add_argument(f"--{code}", type=int)
    for text in ("silent-in-phase", "die-on", "stderr"):
        parser.add_argument(f"--{text}", default="")
    parser.add_argument("--die-once", type=Path)
    ScriptedEngine(parser.parse_args()).run()


if __name__ == "__main__":
    main()
