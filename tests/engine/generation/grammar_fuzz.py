"""Run by test_sampler.py: follows hundreds of damaged grammars for some tokens; prints how many were let through."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import llama_cpp.llama_grammar as shipped

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from engine.core import SamplingParams
from engine.errors import BadRequest, GenerationError
from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.model import Model
from engine.generation.sampler import ChainSampler

PIECES = [
    '"a"',
    "[a-z]",
    "root",
    "(",
    ")",
    "*",
    "+",
    "?",
    "{0,3}",
    "|",
    " ",
    "\n",
    '"',
    "[^",
    "]",
    ".",
    "x ::= ",
    "\\",
    "é",
]
SOURCES = [
    shipped.LIST_GBNF,
    shipped.ARITHMETIC_GBNF,
    shipped.JSON_GBNF,
    'root ::= x y\nx ::= "a" x | y "b"\ny ::= [0-9]?',
]


def main() -> None:
    model = Model(Path(sys.argv[1]), 0, lambda _: True)
    context = Context(model, ContextSpec(num_cells=128, n_batch=16, n_ubatch=16, num_threads=1, num_sequences=2))
    pick, let_through, refused = random.Random(3), 0, 0
    for _ in range(400):
        try:
            follow(model, context, damaged(pick), pick.randrange(1000))
            let_through += 1
        except BadRequest:
            refused += 1
        except GenerationError:
            let_through += 1
    print(let_through, refused)


def damaged(pick: random.Random) -> str:
    text = pick.choice(SOURCES)
    for _ in range(pick.randint(1, 3)):
        at = pick.randrange(len(text))
        text = text[:at] + pick.choice(PIECES) + text[at + pick.choice([0, 0, 1, 5]) :]
    return text


def follow(model: Model, context: Context, grammar: str, seed: int) -> None:
    sampler = ChainSampler(model, SamplingParams(grammar=grammar, seed=seed, temperature=1.5, top_k=0))
    try:
        context.clear()
        token = model.bos
        for position in range(12):
            [row] = context.decode([Stretch(0, position, [token], 1)])
            token = sampler.sample(context, row)
            if model.ends(token):
                return
    finally:
        sampler.close()


main()
