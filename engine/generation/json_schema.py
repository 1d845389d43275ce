"""Turns a JSON schema into GBNF that only JSON of its form matches; what a grammar cannot guarantee is refused.

The rules are those of llama-cpp-python's converter. Where it would silently ignore a keyword, lose an escape or nest as
deep as a list may be long, it is stopped or overridden here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from math import isfinite
from operator import itemgetter
from os.path import commonprefix
from typing import Any, NoReturn
from urllib.parse import unquote

from llama_cpp import llama_grammar

from engine.errors import BadRequest
from engine.generation.gbnf import MAX_REPETITIONS

MAX_CHARACTERS = 100_000
_LIBRARY: Any = llama_grammar
_WAY_OUT = "Simplify the schema, or ask without one."
_NOTES = {
    *("$schema", "$id", "$comment", "title", "description", "default", "examples"),
    *("deprecated", "readOnly", "writeOnly", "$defs", "definitions"),
}
_FORMATS = ("date", "time", "date-time", "uuid")
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_FOLLOWED = {
    "$ref": {"$ref"},
    "anyOf": {"anyOf"},
    "oneOf": {"oneOf"},
    "const": {"const", "type"},
    "enum": {"enum", "type"},
    "object": {"type", "properties", "required", "additionalProperties"},
    "array": {"type", "items", "minItems", "maxItems"},
    "string": {"type", "minLength", "maxLength"},
    "format": {"type", "format"},
}
# As in llama.cpp: line breaks and other control characters never stand unescaped in JSON text.
_LETTER = _LIBRARY.BuiltinRule(
    r'[^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])', []
)


@lru_cache(maxsize=32)
def gbnf_of_schema(text: str) -> str:
    """Returns GBNF for the JSON that fits a schema.

    Required keys come first, each kind in the schema's order, and keys that it does not name only if it allows them.

    Raises:
        BadRequest: It is no JSON schema, or asks for something that a grammar cannot guarantee.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadRequest(f"The JSON schema is longer than {MAX_CHARACTERS:,} characters.", _WAY_OUT)
    try:
        schema = json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
        for inner in _schemas(schema):
            _check(inner)
        return _Converter().convert(schema)
    except BadRequest:
        raise
    except json.JSONDecodeError as error:
        raise BadRequest(f"The JSON schema is no JSON: {error}.", _WAY_OUT) from error
    except RecursionError as error:
        raise BadRequest("The JSON schema is nested too deeply.", _WAY_OUT) from error
    except Exception as error:
        # The converter uses assertions, and raises various errors for what is no schema.
        detail = str(error) or type(error).__name__
        raise BadRequest(f"The JSON schema cannot be followed ({detail}).", _WAY_OUT) from error


class _Converter(_LIBRARY.SchemaConverter):  # type: ignore[misc]  # it has no types
    """The library's converter, with our own rules where it does not follow the schema."""

    def __init__(self) -> None:
        super().__init__(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)

    def convert(self, schema: dict[str, Any]) -> str:
        self._schema = schema
        # The library's own rules never have names that begin like this, or like a definition.
        self._rules["root"] = self.visit(schema, "answer")
        return str(self.format_grammar())

    def visit(self, schema: dict[str, Any], name: str) -> str:
        """Adds the rule for a schema; returns its name."""
        plain = {key: value for key, value in schema.items() if key not in _NOTES}
        kind = _kind(plain)
        if kind in ("const", "enum"):
            return str(self._add_rule(name, self._one_of(map(_written, _values(plain)))))
        if kind == "any":
            return str(self._add_rule(name, self._add_primitive("value", _LIBRARY.PRIMITIVE_RULES["value"])))
        if kind == "array" and plain.keys() & {"items", "minItems", "maxItems"}:
            return str(self._add_rule(name, self._array(plain, name)))
        if kind == "string" and plain.keys() & {"minLength", "maxLength"}:
            letter = self._add_primitive("char", _LIBRARY.PRIMITIVE_RULES["char"])
            times = _times(plain.get("minLength", 0), plain.get("maxLength"))
            return str(self._add_rule(name, rf'"\"" {letter}{times} "\"" space'))
        return str(super().visit(plain, name))

    def _add_primitive(self, name: str, rule: Any) -> str:
        # WORKAROUND llama-cpp-python 0.3.36: its own letters may be control characters.
        return str(super()._add_primitive(name, _LETTER if name == "char" else rule))

    def _one_of(self, texts: Iterable[str]) -> str:
        """Returns a rule for exactly these texts; common beginnings are written once, or each would be followed."""
        forms = []
        for _, alike in groupby(sorted(set(texts)), key=itemgetter(slice(1))):
            same = list(alike)
            start = commonprefix(same)  # noqa: RUF071  # texts, not paths
            forms.append(_literal(start))
            if len(same) > 1:
                rest = self._one_of(text[len(start) :] for text in same)
                forms[-1] += f" {self._add_rule(f'rest-{len(self._rules)}', rest)}"
        return " | ".join(forms)

    def _array(self, schema: dict[str, Any], name: str) -> str:
        item = self.visit(schema.get("items", {}), f"{name}-item")
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most == 0:
            return '"[" space "]" space'
        others = f'("," space {item}){_times(max(least - 1, 0), None if most is None else most - 1)}'
        items = f"{item} {others}" if least else f"({item} {others})?"
        return f'"[" space {items} "]" space'

    def _build_object_rule(
        self, properties: list[tuple[str, Any]], required: set[str], name: str, additional_properties: Any
    ) -> str:
        # WORKAROUND llama-cpp-python 0.3.36: keys that are not described would follow an optional one without a comma.
        pairs = {
            key: self._pair(f"{name}-{key}", self._format_literal(json.dumps(key)) + " space", schema)
            for key, schema in properties
        }
        rest, beginnings = '""', []
        if additional_properties is True or isinstance(additional_properties, dict):
            key = self._key_beside(set(pairs))
            other = self._pair(
                f"{name}-additional", key, {} if additional_properties is True else additional_properties
            )
            rest = f'("," space {other})*'
            beginnings.append(f"{other} {rest}")
        # Optional keys, from the last to the first: what may follow each is already a rule.
        for key in reversed([key for key in pairs if key not in required]):
            rest = self._add_rule(f"{name}-{key}-rest", rest)
            beginnings.append(f"{pairs[key]} {rest}")
            rest = f'("," space {pairs[key]})? {rest}'
        needed = ' "," space '.join(pair for key, pair in pairs.items() if key in required)
        members = f"{needed} {rest}" if needed else f"({' | '.join(beginnings)})?" if beginnings else ""
        return f'"{{" space {members} "}}" space'

    def _key_beside(self, keys: set[str]) -> str:
        """Returns a rule for any key but these, written without escapes, which could spell one of them."""
        if not keys:
            return str(self._add_primitive("string", _LIBRARY.PRIMITIVE_RULES["string"]))
        unescaped = {key for key in keys if json.dumps(key, ensure_ascii=False) == f'"{key}"'}
        return rf'"\"" {self._text_beside(unescaped)} "\"" space'

    def _text_beside(self, texts: set[str]) -> str:
        """Adds rules for any text without escapes but these; returns the name of the first."""
        plain, name = r'"\\\x7F\x00-\x1F', ""
        behind: dict[tuple[int, str], str] = {}
        # One rule for each beginning, the longest first: what may follow each letter is already a rule.
        for length, alike in reversed(_begun_alike(texts)):
            following = {text[length]: text for text in reversed(alike) if len(text) > length}
            others = "".join(map(_in_set, sorted(following)))
            forms = [f"[^{plain}{others}] [^{plain}]*"]
            forms += [f"[{_in_set(first)}] {behind[length + 1, text]}" for first, text in sorted(following.items())]
            is_one = any(len(text) == length for text in alike)
            name = str(self._add_rule(f"beside-{len(self._rules)}", f"({' | '.join(forms)}){'' if is_one else '?'}"))
            behind[length, min(alike, default="")] = name
        return name

    def _pair(self, name: str, key: str, schema: dict[str, Any]) -> str:
        return str(self._add_rule(f"{name}-kv", f'{key} ":" space {self.visit(schema, name)}'))

    def _resolve_ref(self, ref: str) -> str:
        # The library names the rule after the end of the path, which two definitions, or a rule of its own, may share.
        name = self._refs.get(ref)
        if name is None:
            name = self._refs[ref] = f"definition-{len(self._refs)}"
            made = self.visit(_pointed_at(self._schema, ref), name)
            self._rules.setdefault(name, made)
        return str(name)

    def _format_literal(self, literal: str) -> str:
        # WORKAROUND llama-cpp-python 0.3.36: the backslashes of a JSON text are left as they are, where they would
        # escape in GBNF, and letters outside ASCII become \u escapes, which no model would write by itself.
        return _literal(_written(json.loads(literal)))


def _pointed_at(schema: Any, ref: str) -> Any:
    """Returns what "#/$defs/name" means within `schema`."""
    root, *keys = ref.split("/")
    if root != "#":
        raise BadRequest(f"The JSON schema points to {ref!r}, outside of itself.", "Put everything into one schema.")
    for key in keys:
        schema = schema.get(unquote(key).replace("~1", "/").replace("~0", "~")) if isinstance(schema, dict) else None
    if not isinstance(schema, dict):
        raise BadRequest(f"The JSON schema points to {ref!r}, where it has nothing.", _WAY_OUT)
    return schema


def _finite(text: str) -> float:
    """Returns the number; raises BadRequest if it could only be written as Infinity, which is no JSON."""
    value = float(text)
    return value if isfinite(value) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise BadRequest(f"The JSON schema holds {text:.20}, which cannot be written as a number of JSON.", _WAY_OUT)


def _written(value: Any) -> str:
    """Returns the JSON of a value, as a model would write it."""
    return json.dumps(value, ensure_ascii=False)


def _literal(text: str) -> str:
    """Returns a text as a GBNF literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _begun_alike(texts: Iterable[str]) -> list[tuple[int, list[str]]]:
    """Returns sorted texts that share a beginning, with its length: an entry for each beginning, longer ones last."""
    found, at = [(0, sorted(texts))], 0
    while at < len(found):
        length, alike = found[at]
        longer = [text for text in alike if len(text) > length]
        found += [(length + 1, list(same)) for _, same in groupby(longer, key=itemgetter(length))]
        at += 1
    return found


def _in_set(character: str) -> str:
    """Returns a character as it is written between [ and ] in GBNF, where some have a special meaning."""
    return character if character.isalnum() else f"\\U{ord(character):08X}"


def _times(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}" if most != least else f"{{{least}}}"


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yields a schema and all schemas within it."""
    if not isinstance(schema, dict):
        raise BadRequest(f"{schema!r} stands in the JSON schema where an object should.", _WAY_OUT)
    yield schema
    inner: list[Any] = []
    for key in ("properties", "$defs", "definitions"):
        inner += schema.get(key, {}).values()
    for key in ("anyOf", "oneOf"):
        inner += schema.get(key, [])
    inner += [schema["items"]] if "items" in schema else []
    if not isinstance(schema.get("additionalProperties", False), bool):
        inner.append(schema["additionalProperties"])
    for one in inner:
        yield from _schemas(one)


def _values(schema: dict[str, Any]) -> list[Any]:
    """Returns the values that a schema names and that are also of the type it names."""
    named, types = [schema["const"]] if "const" in schema else schema["enum"], schema.get("type", _TYPES)
    if not isinstance(named, list):
        raise BadRequest(f"{named!r} stands in the JSON schema where a list should.", _WAY_OUT)
    fitting = [
        value for value in named if not _types_of(value).isdisjoint([types] if isinstance(types, str) else types)
    ]
    if not fitting:
        raise BadRequest("The JSON schema lets no value in at all.", _WAY_OUT)
    return fitting


def _types_of(value: Any) -> set[str]:
    if value is None or isinstance(value, bool):
        return {"null"} if value is None else {"boolean"}
    if isinstance(value, int | float):
        return {"number", "integer"} if isinstance(value, int) or value.is_integer() else {"number"}
    return {"string"} if isinstance(value, str) else {"array"} if isinstance(value, list) else {"object"}


def _kind(schema: dict[str, Any]) -> str:
    for name in ("$ref", "anyOf", "oneOf", "const", "enum"):
        if name in schema:
            return name
    type_ = schema.get("type")
    if type_ is None:
        implied = {"properties": "object", "additionalProperties": "object", "items": "array", "format": "string"}
        type_ = next((kind for key, kind in implied.items() if key in schema), "other" if schema else "any")
    return "format" if type_ == "string" and "format" in schema else str(type_)


def _check(schema: dict[str, Any]) -> None:
    """Refuses keywords that would be ignored: the answer would look as if it followed the schema."""
    given = {key: value for key, value in schema.items() if key not in _NOTES}
    unknown = given.keys() - _FOLLOWED.get(_kind(given), {"type"})
    if "format" in given and given["format"] not in _FORMATS:
        unknown = {f"format {given['format']}"}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise BadRequest(f"Answers cannot be held to this of a JSON schema: {names}.", "Leave it out of the schema.")
    types = given.get("type", "object")
    for type_ in types if isinstance(types, list) and types else [types]:
        if type_ not in _TYPES:
            raise BadRequest(f"{type_!r} is no type of a JSON schema.", _WAY_OUT)
    _check_counts(given)
    missing = set(given.get("required", ())) - given.get("properties", {}).keys()
    if missing:
        raise BadRequest(f"The JSON schema requires {sorted(missing)[0]!r}, which it does not describe.", _WAY_OUT)


def _check_counts(schema: dict[str, Any]) -> None:
    for least, most in (("minItems", "maxItems"), ("minLength", "maxLength")):
        low, high = schema.get(least, 0), schema.get(most, MAX_REPETITIONS)
        if not (type(low) is type(high) is int and 0 <= low <= high <= MAX_REPETITIONS):
            raise BadRequest(
                f"{least} and {most} of a JSON schema are whole numbers up to {MAX_REPETITIONS:,}.", _WAY_OUT
            )
