"""Tests for engine.generation.json_schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import BadRequest
from engine.generation import gbnf, grammar
from engine.generation.json_schema import gbnf_of_schema
from engine.generation.model import Model
from tests.helpers.gbnf import fits
from tests.helpers.tiny_gguf import EOS

PERSON = {
    "type": "object",
    "title": "A person",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 90},
        "age": {"type": ["integer", "null"]},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3},
        "since": {"type": "string", "format": "date"},
        "boss": {"anyOf": [{"$ref": "#/$defs/string"}, {"type": "null"}]},
    },
    "required": ["name", "tags"],
    "$defs": {"string": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
}


def holds(schema: object, text: str) -> bool:
    written = gbnf_of_schema(json.dumps(schema))
    grammar.check(written)
    return fits(written, text)


# Keys named like rules of the grammar: its own, those that it becomes when cleaned, and those that others get.
NAMES = ("", "integral part", "definition-0", "root", "space", "answer", "string", "a", "a-kv", "a-rest", "additional")
CALLED = {
    "properties": {name: {"$ref": f"#/$defs/{number}"} for number, name in enumerate(NAMES)},
    "required": NAMES[::2],
    "additionalProperties": {"type": "number"},
    "$defs": {str(number): {"type": "array", "items": {"const": number}} for number in range(len(NAMES))},
}
IN_ORDER = sorted(enumerate(NAMES), key=lambda one: one[1] not in CALLED["required"])
# Optional keys, together with keys that are not described.
OPEN = {
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "additionalProperties": {"type": "null"},
}
SPECIAL = {"properties": {'a"b': {}, "]^-é": {"type": "string"}}, "additionalProperties": {"type": "integer"}}
NAMED = {**OPEN, "required": ["name"]}


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Iterator[Model]:
    model = Model(tiny_model, 0, lambda _: True)
    yield model
    model.close()


def is_taken(model: Model, schema: object, text: str) -> bool:
    """Whether llama.cpp lets a model write the text, byte by byte, and end there."""
    pieces = {model.piece(token): token for token in range(model.num_tokens)}
    follower = grammar.NativeGrammar(model, gbnf_of_schema(json.dumps(schema)))
    try:
        for byte in text.encode():
            token = pieces[bytes([byte])]
            if not follower.allows(token):
                return False
            follower.accept(token)
        return follower.allows(EOS)
    finally:
        follower.close()


@pytest.mark.parametrize(
    ("schema", "text", "is_good"),
    [
        (OPEN, "{}", True),
        (OPEN, '{"age":1}', True),
        (OPEN, '{"age":1,"z":null}', True),
        (OPEN, '{"age":1"z":null}', False),
        (OPEN, '{"name":"a", "age":1,"z":null, "y":null}', True),
        (OPEN, '{"name":"a","z":null}', True),
        (OPEN, '{"z":null}', True),
        (OPEN, '{"z":1}', False),
        (OPEN, '{"age":1,"name":"a"}', False),
        (NAMED, '{"name":"a","age":1,"z":null}', True),
        (NAMED, '{"name":"a","z":null}', True),
        (NAMED, '{"name":"a"}', True),
        (NAMED, '{"age":1}', False),
        (OPEN, '{"age":1,"age":null}', False),
        (OPEN, '{"name":null}', False),
        (OPEN, '{"nam":null,"names":null,"n":null,"":null,"age ":null,"é-[^]":null}', True),
        (OPEN, r'{"na\u006de":null}', False),
        (NAMED, '{"name":"a","name":null}', False),
        (SPECIAL, '{"]^-":1,"é":1,"":1}', True),
        (SPECIAL, '{"]^-é":null}', False),
        (SPECIAL, '{"a"x":1}', False),
        (SPECIAL, '{"]^-é-":1}', True),
        ({"additionalProperties": {"type": "null"}}, r'{"a\n":null}', True),
        ({"additionalProperties": False}, "{}", True),
        ({"type": "string"}, '"a\nb"', False),
        ({"type": "string"}, '"a\x7f"', False),
        ({"type": "string"}, r'"a\n\t\u0001\/ é猫"', True),
        ({"type": "string", "maxLength": 3}, '"a\tb"', False),
        ({}, '{"a\n":1}', False),
        ({"type": "integer", "enum": ["a", 1, True, 2.5, 2.0]}, "1", True),
        ({"type": "integer", "enum": ["a", 1, True, 2.5, 2.0]}, "2.0", True),
        ({"type": "integer", "enum": ["a", 1, True, 2.5, 2.0]}, '"a"', False),
        ({"type": "integer", "enum": ["a", 1, True, 2.5, 2.0]}, "true", False),
        ({"type": "integer", "enum": ["a", 1, True, 2.5, 2.0]}, "2.5", False),
        ({"type": ["string", "null"], "enum": ["a", None, 1]}, "null", True),
        ({"type": ["string", "null"], "enum": ["a", None, 1]}, "1", False),
        (CALLED, json.dumps({**{name: [number] for number, name in IN_ORDER}, "z": 10.5}), True),
        (CALLED, json.dumps({name: [number] for number, name in IN_ORDER if name in CALLED["required"]}), True),
        (CALLED, json.dumps({**{name: [number] for number, name in IN_ORDER}, "z": "a"}), False),
        (CALLED, json.dumps({name: [number or 7] for number, name in IN_ORDER}), False),
        (CALLED, "[]", False),
        ({"type": "array", "minItems": 2}, '[1,"a"]', True),
        ({"type": "array", "minItems": 2}, "[1]", False),
        ({"type": "array", "maxItems": 1}, "[]", True),
        ({"type": "array", "maxItems": 1}, "[1,2]", False),
    ],
)
def test_llama_cpp_takes_what_fits_and_nothing_else(model: Model, schema: object, text: str, is_good: bool):
    assert holds(schema, text) is is_good
    assert is_taken(model, schema, text) is is_good


@pytest.mark.parametrize(
    ("text", "is_good"),
    [
        ('{"name":"Ada","tags":["a"]}', True),
        ('{"name":"Ada","age":36,"tags":["a","b","a"]}', True),
        ('{"name":"Ada","age":null,"tags":["b"],"since":"1815-12-10","boss":{"id":7}}', True),
        ('{"name":"Ada","tags":["b"],"boss":null}', True),
        ('{"name":"Ada"}', False),
        ('{"name":"","tags":["a"]}', False),
        ('{"name":"' + "x" * 91 + '","tags":["a"]}', False),
        ('{"name":"' + "x" * 90 + '","tags":["a"]}', True),
        ('{"name":"Ada","tags":[]}', False),
        ('{"name":"Ada","tags":["a","a","a","a"]}', False),
        ('{"name":"Ada","tags":["c"]}', False),
        ('{"name":"Ada","age":"old","tags":["a"]}', False),
        ('{"name":"Ada","tags":["a"],"more":1}', False),
        ('{"name":"Ada","tags":["b"],"boss":"Bob"}', False),
    ],
)
def test_only_json_of_the_schema_fits(text: str, is_good: bool):
    # Optional keys follow the required ones.
    if is_good:
        value = json.loads(text)
        text = json.dumps({key: value[key] for key in ("name", "tags", "age", "since", "boss") if key in value})
    assert holds(PERSON, text) is is_good


@pytest.mark.parametrize("value", ['a"b', "back\\slash", "two\nlines", "é猫", "", 1.5, None, [1, {"k": '"'}]])
def test_a_constant_comes_out_as_it_is(value: object):
    assert holds({"const": value}, json.dumps(value, ensure_ascii=False))
    assert holds({"enum": ["other", value]}, json.dumps(value, ensure_ascii=False))


@pytest.mark.parametrize(
    ("text", "is_good"),
    [
        ('"article-2999"', True),
        ('"article-0"', True),
        ('"article-299"', True),
        ('"article-"', False),
        ('"article-3000"', False),
        ("29", True),
        ("2", False),
        ('""', True),
        (r'"a\\n"', True),
        (r'"a\n"', True),
    ],
)
def test_of_many_values_that_begin_alike_only_those_fit(model: Model, text: str, is_good: bool):
    schema = {"enum": [*(f"article-{number}" for number in range(3000)), *range(29, 300), "", r"a\n", "a\n"]}
    assert holds(schema, text) is is_good
    assert is_taken(model, schema, text) is is_good


def test_a_list_of_values_leaves_few_ways_open():
    """Each alternative would be one more that llama.cpp follows for each token of the vocabulary."""
    parsed = gbnf.parse(gbnf_of_schema(json.dumps({"enum": [f"article-{number:04d}" for number in range(3000)]})))
    assert max(map(len, parsed.rules)) == 10


def test_a_key_may_need_escapes():
    schema = {"properties": {'a"\\é': {"type": "boolean"}}, "required": ['a"\\é']}
    assert holds(schema, json.dumps({'a"\\é': True}, ensure_ascii=False))


@pytest.mark.parametrize(
    ("key", "is_good"),
    [
        ("x" * 1999, True),
        ("x" * 2001, True),
        ("x" * 1000 + "y" * 1000, True),
        ("x" * 2000, False),
        ("x", False),
        ("é", True),
        ("", True),
    ],
)
def test_other_keys_may_stand_beside_a_very_long_one(model: Model, key: str, is_good: bool):
    long = {"x" * 2000: {"type": "string"}, "x": {"type": "string"}}
    schema = {"properties": long, "additionalProperties": {"type": "integer"}}
    grammar.check(gbnf_of_schema(json.dumps(schema)))
    assert is_taken(model, schema, json.dumps({key: 1}, ensure_ascii=False).replace(" ", "")) is is_good


def test_a_list_may_be_empty_or_have_a_length():
    assert holds({"type": "array", "items": {"type": "integer"}}, "[]")
    assert holds({"type": "array", "items": {"type": "integer"}, "maxItems": 0}, "[]")
    assert holds({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}, "[1, 22]")
    assert not holds({"type": "array", "items": {"type": "integer"}, "minItems": 2}, "[1]")


def test_texts_and_lists_may_be_as_long_as_llama_cpp_repeats():
    letters, numbers = {"type": "string", "maxLength": 2000}, {"type": "array", "items": {"const": 1}, "maxItems": 2000}
    assert holds(letters, '"abc"')
    assert holds(numbers, "[1,1]")


def test_two_definitions_may_share_their_last_name():
    schema = {
        "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/definitions/x"}},
        "required": ["a", "b"],
        "$defs": {"x": {"const": 1}},
        "definitions": {"x": {"const": 2}},
    }
    assert holds(schema, '{"a":1,"b":2}')
    assert not holds(schema, '{"a":1,"b":1}')


def test_no_restriction_is_any_json():
    assert holds({"properties": {"x": {"description": "whatever"}}, "required": ["x"]}, '{"x":[1,{"y":null}]}')


def test_a_schema_may_hold_itself():
    tree = {"$defs": {"node": {"properties": {"left": {"$ref": "#/$defs/node"}}}}, "$ref": "#/$defs/node"}
    assert holds(tree, '{"left":{"left":{}}}')


def test_other_keys_are_let_in_where_the_schema_says_so():
    assert holds({"additionalProperties": {"type": "integer"}, "type": "object"}, '{"a":1,"b":2}')
    assert not holds({"additionalProperties": {"type": "integer"}, "type": "object"}, '{"a":"1"}')


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"type": "string", "pattern": "^a$"}, "held to this of a JSON schema: pattern"),
        ({"type": "integer", "minimum": 3}, "minimum"),
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "uniqueItems"),
        ({"properties": {"a": {"type": "string", "format": "email"}}}, "format email"),
        ({"type": ["object", "null"], "properties": {"a": {}}}, "properties"),
        ({"allOf": [{"type": "object"}]}, "allOf"),
        ({"not": {"type": "string"}}, "not"),
        ({"$ref": "https://example.org/schema"}, "outside of itself"),
        ({"$ref": "#/$defs/gone"}, "where it has nothing"),
        ({"$ref": 7}, "cannot be followed"),
        ({"type": "text"}, "'text' is no type"),
        ({"type": "string", "const": 7}, "lets no value in"),
        ({"type": ["string", "null"], "enum": [7, False]}, "lets no value in"),
        ({"enum": []}, "lets no value in"),
        ({"enum": "ab"}, "where a list should"),
        ({"type": []}, "is no type"),
        ({"type": "array", "items": {}, "maxItems": 1e3}, "whole numbers"),
        ({"type": "array", "items": {}, "minItems": 3, "maxItems": 2}, "whole numbers"),
        ({"type": "string", "maxLength": 5000}, "whole numbers up to 2,000"),
        ({"properties": {"a": True}}, "where an object should"),
        ({"properties": {"a": {}}, "required": ["b"]}, "requires 'b'"),
        ([], "where an object should"),
        (7, "where an object should"),
    ],
)
def test_what_cannot_be_promised_is_refused(schema: object, sentence: str):
    with pytest.raises(BadRequest, match=sentence):
        gbnf_of_schema(json.dumps(schema))


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "-Infinity"])
def test_a_number_that_json_cannot_hold_is_refused(number: str):
    with pytest.raises(BadRequest, match=f"holds {number}, which cannot be written"):
        gbnf_of_schema(f'{{"anyOf": [{{"const": [{number}]}}]}}')


def test_a_whole_number_may_be_of_any_length():
    assert holds({"type": "integer", "enum": [10**400]}, str(10**400))
    assert not holds({"type": "integer", "enum": [10**400]}, str(10**399))


def test_what_is_no_json_is_refused():
    with pytest.raises(BadRequest, match="is no JSON"):
        gbnf_of_schema("{'type': 'object'}")


def test_a_definition_of_itself_only_is_refused():
    with pytest.raises(BadRequest, match="can begin with itself"):
        holds({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "1")


def test_a_schema_that_is_nested_too_deeply_is_refused():
    text = '{"type":"array","items":' * 3000 + "{}" + "}" * 3000
    with pytest.raises(BadRequest, match="nested too deeply"):
        gbnf_of_schema(text)
