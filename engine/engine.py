"""Engine: what one can ask of a library, and the parts that do it; every question is answered for until it has ended.

    with Engine.open() as engine:
        engine.add(["~/Documents"])
        print(engine.ask("What notice period applies to my flat?").text)

One engine holds a data folder at a time. Calls are safe from any thread; events come on the engine's threads.

How it begins and ends, and what is of all of it (settings, memory), is its life cycle; each kind of call goes on from
that: files come into the library, questions are asked of it, and models answer them.
"""

from __future__ import annotations

from engine.library_calls import LibraryCalls
from engine.model_calls import ModelCalls
from engine.question_calls import QuestionCalls


class Engine(LibraryCalls, QuestionCalls, ModelCalls):
    """The library and its answers. Make it with `open` (or hand in a listener, as the host does) and close it."""
