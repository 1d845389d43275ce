"""Checks that a grammar can be followed in bounded time and memory, which llama.cpp does not check itself.

llama.cpp keeps one stack for each way in which the text so far can be parsed. A rule that begins with itself, even by
way of rules that may be empty, creates stacks without end; a rule with two forms that begin alike and recurse doubles
them with each character.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from engine.errors import BadRequest
from engine.generation.gbnf import Alternative, Grammar, Symbol, Terminal, leading, symbols_of

MAX_CHAIN = 500
MAX_WAYS = 4000
# llama.cpp checks each open position for each token of the vocabulary, while all other answers wait.
MAX_OPEN = 600
PROBE_CHARACTERS = 48
_WAY_OUT = "Mend the grammar, or ask without one."
# A form (rule and number of the alternative) from a symbol on, and what follows it: a stack as a linked list.
Position = tuple[int, int, int, "Position | None"]


def check(grammar: Grammar) -> None:
    """Refuses a grammar that would exceed the bounds.

    Raises:
        BadRequest: Left recursion, too long a chain of rules, or too many ways to read the same text.
    """
    may_be_empty = empty_rules(grammar)
    _check_beginnings(grammar, may_be_empty)
    for number, alternatives in enumerate(grammar.rules):
        # The rules that optional parts and repetitions are expanded to are probed where they are used.
        if len(alternatives) > 1 and all(alternatives):
            _probe(grammar, number)


def empty_rules(grammar: Grammar) -> list[bool]:
    """Returns for each rule whether it can match the empty text."""
    users: list[list[int]] = [[] for _ in grammar.rules]
    for number, alternatives in enumerate(grammar.rules):
        for symbol in symbols_of(alternatives):
            if isinstance(symbol, int):
                users[symbol].append(number)
    empty = [False] * len(grammar.rules)
    waiting = list(range(len(grammar.rules)))
    while waiting:
        number = waiting.pop()
        if not empty[number] and any(_is_empty(alternative, empty) for alternative in grammar.rules[number]):
            empty[number] = True
            waiting += users[number]
    return empty


def _is_empty(alternative: Alternative, empty: list[bool]) -> bool:
    return all(isinstance(symbol, int) and empty[symbol] for symbol in alternative)


def _check_beginnings(grammar: Grammar, may_be_empty: list[bool]) -> None:
    """Checks in how many ways each rule can begin, and the longest chain of rules that begin with one another."""
    ways, chain = [0] * len(grammar.rules), [0] * len(grammar.rules)
    begins = [[s for a in rule for s in leading(a, may_be_empty) if isinstance(s, int)] for rule in grammar.rules]
    for number in _inner_first(begins, grammar.names):
        ways[number] = len(grammar.rules[number]) + sum(ways[inner] for inner in begins[number])
        chain[number] = 1 + max((chain[inner] for inner in begins[number]), default=0)
        if ways[number] > MAX_WAYS or chain[number] > MAX_CHAIN:
            raise BadRequest(f"The rule {_told(grammar, number)} can begin in too many ways.", _WAY_OUT)


def _inner_first(begins: list[list[int]], names: tuple[str, ...]) -> Iterator[int]:
    """Yields the rules in an order in which each comes after all that it can begin with."""
    done, open_ = [False] * len(begins), [False] * len(begins)
    for start in range(len(begins)):
        path = [] if done[start] else [(start, iter(begins[start]))]
        open_[start] = True
        while path:
            number, rest = path[-1]
            inner = next((other for other in rest if not done[other]), None)
            if inner is None:
                path.pop()
                done[number], open_[number] = True, False
                yield number
            elif open_[inner]:
                name = names[inner].partition("_")[0]
                raise BadRequest(f"The rule {name!r} of the grammar can begin with itself, without end.", _WAY_OUT)
            else:
                open_[inner] = True
                path.append((inner, iter(begins[inner])))


def _probe(grammar: Grammar, number: int) -> None:
    """Follows, character by character, the text that leaves the most parses open; refuses too many."""
    positions = _expand(grammar, _forms(grammar, number, None))
    for _ in range(PROBE_CHARACTERS):
        at = _by_terminal(grammar, positions)
        following = [_after(grammar, at, character) for character in _characters(at)]
        positions = max(following, key=len, default=set())
        if len(positions) > MAX_OPEN:
            raise BadRequest(
                f"The rule {_told(grammar, number)} can be read in too many ways at once.",
                "Let fewer alternatives begin alike: write what they share once, in front of them.",
            )


def _forms(grammar: Grammar, number: int, after: Position | None) -> list[Position]:
    return [(number, form, 0, after) for form in range(len(grammar.rules[number]))]


def _next_symbol(grammar: Grammar, position: Position) -> Symbol | None:
    """Returns the symbol at a position; None at the end of a form."""
    number, form, index, _ = position
    alternative = grammar.rules[number][form]
    return alternative[index] if index < len(alternative) else None


def _by_terminal(grammar: Grammar, positions: Iterable[Position]) -> dict[Terminal, list[Position]]:
    """Groups positions by their next terminal, which many share."""
    found: dict[Terminal, list[Position]] = {}
    for position in positions:
        symbol = _next_symbol(grammar, position)
        if isinstance(symbol, Terminal):
            found.setdefault(symbol, []).append(position)
    return found


def _after(grammar: Grammar, at: Mapping[Terminal, Sequence[Position]], character: int) -> set[Position]:
    matched = (position for terminal in at if terminal.accepts(character) for position in at[terminal])
    return _expand(grammar, ((number, form, index + 1, after) for number, form, index, after in matched))


def _characters(terminals: Iterable[Terminal]) -> set[int]:
    """Returns a character that each terminal accepts: one at the edge of a range, or the first not excluded."""
    found = set()
    for terminal in terminals:
        candidates = [*(edge for low, high in terminal.ranges for edge in (low, high + 1)), ord("a")]
        found.update([next((code for code in candidates if terminal.accepts(code)), 0)])
    return found


def _expand(grammar: Grammar, positions: Iterable[Position]) -> set[Position]:
    """Enters rules until every position is before a terminal or at the end of the text."""
    waiting, seen, found = list(positions), set[Position](), set[Position]()
    while waiting and len(seen) <= 2 * MAX_WAYS:
        position = waiting.pop()
        if position in seen:
            continue
        seen.add(position)
        number, form, index, after = position
        symbol = _next_symbol(grammar, position)
        if isinstance(symbol, Terminal) or (symbol is None and after is None):
            found.add(position)
        elif symbol is None:
            waiting += [after] if after else []
        else:
            is_last = index + 1 == len(grammar.rules[number][form])
            waiting += _forms(grammar, symbol, after if is_last else (number, form, index + 1, after))
    return seen if waiting else found


def _told(grammar: Grammar, number: int) -> str:
    """Returns the name of the rule, as written in the grammar, that an expanded rule comes from."""
    return repr(grammar.names[number].partition("_")[0])
