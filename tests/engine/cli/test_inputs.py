"""Tests for engine.cli.inputs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from engine.cli.inputs import BatchLine, read_batch, read_form, read_pair, read_password, read_sampling
from engine.cli.parser import make_parser
from engine.errors import BadRequest, NothingThere


def test_a_line_separator_inside_a_query_does_not_end_the_line_of_a_batch(tmp_path: Path):
    file = tmp_path / "batch.jsonl"
    file.write_text(json.dumps({"id": 1, "query": "one\u2028two"}, ensure_ascii=False) + "\r\n", encoding="utf-8")
    assert read_batch(str(file), "query") == [BatchLine(1, "one\u2028two")]


def test_a_line_of_a_batch_may_name_a_model(tmp_path: Path):
    file = tmp_path / "batch.jsonl"
    file.write_text('{"id": 1, "question": "one", "model": "small.gguf"}\n{"id": 2, "question": "two"}\n')
    assert [line.model for line in read_batch(str(file), "question")] == ["small.gguf", ""]


def test_null_is_no_model_and_no_question(tmp_path: Path):
    file = tmp_path / "batch.jsonl"
    file.write_text('{"id": 1, "question": "one", "model": null}\n')
    assert read_batch(str(file), "question") == [BatchLine(1, "one")]
    for entry in ('{"id": 1, "question": null}', '{"id": 1, "question": 7}', '{"id": 1, "question": "x", "model": 7}'):
        file.write_text(entry)
        with pytest.raises(BadRequest, match="Line 1"):
            read_batch(str(file), "question")


def test_a_mark_of_byte_order_is_no_part_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "file"
    file.write_text('{"id": 1, "query": "one"}\n', encoding="utf-8-sig")
    assert read_batch(str(file), "query") == [BatchLine(1, "one")]
    file.write_text("open sesame\n", encoding="utf-8-sig")
    assert read_password(str(file)) == read_form(str(file), "grammar").strip() == "open sesame"
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeffopen sesame\n"))
    assert read_password("-") == "open sesame"


def test_a_batch_that_is_no_text_is_refused_with_a_sentence(tmp_path: Path):
    file = tmp_path / "batch.jsonl"
    file.write_bytes(b"\xff\xfe")
    for path in (file, tmp_path):
        with pytest.raises(BadRequest, match="cannot be read"):
            read_batch(str(path), "query")


def test_a_password_comes_from_a_file_never_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "password"
    file.write_text("open sesame \r\nnot this line", encoding="utf-8")

    assert read_password(str(file)) == "open sesame "
    with pytest.raises(BadRequest, match="password file"):
        read_password(str(tmp_path / "none"))
    with pytest.raises(SystemExit):
        make_parser().parse_args(["unlock", "a.pdf", "--password", "open sesame"])
    assert "password" in capsys.readouterr().err


def test_a_password_is_typed_unseen_where_no_file_is_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("getpass.getpass", lambda prompt: "typed")
    assert read_password(None) == "typed"

    def nobody(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", nobody)
    with pytest.raises(BadRequest, match="no terminal"):
        read_password(None)


def test_the_form_of_an_answer_comes_from_a_file(tmp_path: Path):
    file = tmp_path / "form.gbnf"
    file.write_text('root ::= "yes" | "no"', encoding="utf-8")
    assert read_form(str(file), "grammar") == 'root ::= "yes" | "no"'
    assert read_form(None, "grammar") == ""
    with pytest.raises(NothingThere, match="no file"):
        read_form(str(tmp_path / "none"), "grammar")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(BadRequest, match=r"The JSON schema .* cannot be read"):
        read_form(str(file), "JSON schema")


def test_an_answer_has_one_form(capsys: pytest.CaptureFixture[str]):
    parsed = make_parser().parse_args(["ask", "Who?", "--json-schema", "a.json", "--beams", "3"])
    assert (parsed.json_schema, parsed.grammar, parsed.beams) == ("a.json", None, 3)
    with pytest.raises(SystemExit):
        make_parser().parse_args(["ask", "Who?", "--json-schema", "a.json", "--grammar", "b.gbnf"])
    assert "not allowed with" in capsys.readouterr().err


def test_how_tokens_are_chosen_is_named_one_by_one():
    others = {"temperature": 0.7, "top_k": 10, "stop": ["END"]}
    pairs = ["top_k=20", "mirostat=true", "logit_bias=[[7, -Infinity]]", "grammar=root ::= [=]"]
    params = read_sampling(pairs, others)
    assert (params.temperature, params.top_k, params.mirostat, params.stop) == (0.7, 20, True, ("END",))
    assert params.logit_bias == ((7, float("-inf")),)
    assert params.grammar == "root ::= [=]"


def test_what_is_no_way_to_choose_tokens_is_refused_with_a_sentence():
    with pytest.raises(BadRequest, match="no sampling parameter 'topk'") as refused:
        read_sampling(["topk=20"], {})
    assert "top_k" in refused.value.way_out
    with pytest.raises(BadRequest, match="top_k"):
        read_sampling(["top_k=many"], {})
    with pytest.raises(BadRequest, match="NAME=VALUE"):
        read_sampling(["top_k"], {})


def test_a_value_is_read_as_json_or_else_as_it_stands():
    assert read_pair("a=1.5") == ("a", 1.5)
    assert read_pair("a=null") == ("a", None)
    assert read_pair("a=b=c") == ("a", "b=c")
    assert read_pair("a=") == ("a", "")


def test_sampling_can_be_told_in_all_its_ways():
    asked = ["ask", "Who?", "--temperature", "0", "--stop", "END", "--stop", "\n", "--sampling", "top_k=3"]
    parsed = make_parser().parse_args(asked)
    assert (parsed.temperature, parsed.stop, parsed.sampling) == (0.0, ["END", "\n"], ["top_k=3"])
