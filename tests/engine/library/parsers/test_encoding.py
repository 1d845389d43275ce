"""Tests for engine.library.parsers.encoding."""

from __future__ import annotations

import pytest

from engine.library.parsers.encoding import clean, decode, is_binary

SENTENCES = [
    ("Straße und Übermut, ärgerlich ist das für jede Größe.", "cp1252"),
    ("Le café était fermé à cause de la grève.", "latin-1"),
    ("El niño está en España. Mañana será otro día.", "latin-1"),
    ("“Smart quotes” — and dashes … in plain English.", "cp1252"),
    ("naïve résumé", "latin-1"),
    ("Příliš žluťoučký kůň úpěl ďábelské ódy.", "cp1250"),
    ("Zażółć gęślą jaźń, to jest polski tekst.", "cp1250"),
    ("Привет, мир! Как дела сегодня?", "cp1251"),
    ("Привет, мир! Как дела сегодня?", "koi8-r"),
    ("Ελληνικό κείμενο εδώ είναι.", "cp1253"),
    ("这是一个关于共享状态的中文文本。线程之间共享数据。", "gb18030"),
    ("這是一個關於共享狀態並發的中文文本。", "big5"),
    ("これは日本語のテキストです。共有状態。", "shift_jis"),
    ("これは日本語のテキストです。共有状態。", "euc_jp"),
    ("これは日本語のテキストです。共有状態。", "iso2022_jp"),
    ("안녕하세요 세계 공유 상태", "euc_kr"),
    ("Any text at all, 任何文字", "utf-8"),
    ("Any text at all, 任何文字", "utf-8-sig"),
    ("Any text at all, Größe", "utf-16"),
    ("Any text at all, Größe", "utf-16-le"),
    ("Any text at all, Größe", "utf-16-be"),
    ("Any text at all, 任何文字", "utf-32"),
]


@pytest.mark.parametrize(("sentence", "encoding"), SENTENCES)
def test_text_is_read_in_its_encoding(sentence: str, encoding: str):
    data = sentence.encode(encoding)
    assert not is_binary(data)
    assert decode(data) == sentence


def test_a_declared_encoding_is_believed_where_bytes_allow_several():
    data = "Привет".encode("iso8859-5")
    assert decode(data, "iso-8859-5") == "Привет"
    assert decode("Größe".encode(), "latin-1") == "Größe"
    assert decode(b"plain", "no-such-encoding") == "plain"


def test_a_declared_encoding_is_read_as_browsers_do():
    assert decode("朱镕基".encode("gbk"), "gb2312") == "朱镕基"
    assert decode("髙橋様①".encode("cp932"), "Shift_JIS") == "髙橋様①"
    # Nobody writes these signs, but a page that has them is still what it says.
    assert decode(b"caf\xe9 \x81 na\xefve", "iso-8859-1") == "café \x81 naïve"


def test_japanese_mail_may_hold_the_signs_of_windows():
    numbered = b"\x1b$B@A5a=q-!\x1b(B and \x1b(I1\x1b(J."
    assert decode(numbered) == decode(numbered, "iso-2022-jp") == "請求書① and ｱ."


def test_one_bad_byte_does_not_make_a_text_latin():
    data = ("Größe und Übermut " * 50).encode() + b"\xff" + "ä".encode()
    assert decode(data).startswith("Größe")


def test_a_bad_byte_far_behind_the_beginning_does_not_either():
    data = ("Größe und Übermut " * 8000).encode() + b"\xff" + "ä".encode()
    assert len(data) > 2**17
    assert decode(data).endswith("Übermut \ufffdä")
    assert decode(b"plain " * 20_000 + "Größe".encode("cp1252")).endswith("Größe")


def test_nor_does_one_in_a_text_whose_first_sign_beyond_ascii_is_far_behind():
    data = b"All is well here. " * 8000 + "A dash \u2014 and \u201cquotes\u201d. ".encode() * 40
    text = decode(data + b"\xff" + b" The end.")
    assert "A dash \u2014 and \u201cquotes\u201d." in text


def test_nothing_that_cannot_be_stored_comes_through():
    assert clean("a\0b\ud800c\x01d\ufffe\x7f") == "abcd"
    assert clean("a\r\nb\rc\x85d\x0be") == "a\nb\nc\nd\ne"
    decode(bytes(range(256)) * 3).encode()
    decode(b"\xff\xfe\x00\xd8x\x00").encode()


def test_binary_data_is_no_text():
    assert is_binary(b"abc\0def")
    assert is_binary(bytes(range(1, 9)) * 9)
    assert not is_binary(b"\x1b[31mred\x1b[0m and a\ttab\n")


@pytest.mark.parametrize("zeros", [b"\0", b"\0" * 4096])
@pytest.mark.parametrize("before", [b"", b"2024-01-01 all is well\n" * 40])
def test_zeros_that_a_crash_left_do_not_make_a_log_binary(before: bytes, zeros: bytes):
    log = before + zeros + b"2024-01-01 an error\n" * 40
    assert not is_binary(log)
    assert "\0" not in decode(log)
    assert is_binary(log + b"\0".join([b"12345678"] * 40))
    assert is_binary(zeros * 600)
