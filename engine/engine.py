"""Engine: the public interface of a library. Every question ends exactly once: finished, cancelled or failed.

    with Engine.open() as engine:
        engine.add(["~/Documents"])
        print(engine.ask("What notice period applies to my flat?").text)

One engine holds a data folder at a time. Calls are safe from any thread; events come on the engine's threads.

`LifeCycle` starts and closes it and holds what concerns all of it (settings, memory); three classes add the calls:
reading files into the library, asking questions, and managing models.
"""

from __future__ import annotations

from engine.library_calls import LibraryCalls
from engine.model_calls import ModelCalls
from engine.question_calls import QuestionCalls


class Engine(LibraryCalls, QuestionCalls, ModelCalls):
    """The library and its answers. Create it with `open` (or with a listener, as the host does) and close it."""
