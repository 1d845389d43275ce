"""Tests for engine.library.parsers.mail, letters and nested."""

from __future__ import annotations

import email
import email.policy
import os
from email.message import EmailMessage
from pathlib import Path

import pytest

from engine.core import ParsedDocument
from engine.errors import DocumentEncrypted, DocumentUnsupported
from engine.library.parsers import families, nested
from engine.library.parsers import mail as mail_parser
from engine.library.parsers.limits import Limits
from tests.helpers.documents import write_docx
from tests.helpers.packages import packed
from tests.helpers.parsing import check, said
from tests.helpers.pdf import pdf
from tests.helpers.shared_data import shared_file


def mail(text: str = "Hello Mary,\n\nhere it is.\n", **headers: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Ada Lovelace <ada@example.org>"
    message["To"] = "Mary <mary@example.org>, charles@example.org"
    message["Date"] = "Tue, 05 Mar 2024 14:02:00 +0100"
    message["Subject"] = headers.pop("subject", "Größe der Dinge")
    for name, value in headers.items():
        message[name] = value
    message.set_content(text)
    return message


def places(document: ParsedDocument) -> list[str]:
    return [page.place for page in document.pages]


def test_a_message_is_its_subject_headers_and_body(parsed):
    document = parsed("a.eml", mail().as_bytes())
    assert (document.format, document.title) == ("mail", "Größe der Dinge")
    assert [(page.number, page.place) for page in document.pages] == [(None, "")]
    assert said(document) == [
        ("heading", "Größe der Dinge"),
        (
            "paragraph",
            "From: Ada Lovelace <ada@example.org>\nTo: Mary <mary@example.org>, charles@example.org\n"
            "Date: 2024-03-05 14:02",
        ),
        ("paragraph", "Hello Mary,"),
        ("paragraph", "here it is."),
    ]


def test_html_is_read_where_there_is_no_text_or_only_an_excuse(parsed):
    html = "<html><style>p {}</style><body><h2>News</h2><p>" + "Much to tell. " * 60 + "</p></body></html>"
    message = mail("Your program shows no HTML.")
    message.add_alternative(html, subtype="html")
    assert ("heading", "News") in said(parsed("a.eml", message.as_bytes()))
    message = mail("All that there is to tell. " * 30)
    message.add_alternative(html, subtype="html")
    assert "Much to tell." not in parsed("a.eml", message.as_bytes()).pages[0].text
    only = EmailMessage()
    only["Subject"], only["From"] = "Only", "a@b.c"
    only.set_content("<p>Only this.</p>", subtype="html")
    assert said(parsed("a.eml", only.as_bytes()))[1:] == [
        ("paragraph", "From: a@b.c"),
        ("paragraph", "Only this."),
    ]


@pytest.mark.parametrize(
    ("text", "charset", "written"),
    [
        ("朱镕基先生的合同", "gb2312", "gbk"),
        ("株式会社①㈱髙橋様", "shift_jis", "cp932"),
        ("이것은 햏 문서입니다", "ks_c_5601-1987", "cp949"),
        ("“fiyat” İstanbul", "iso-8859-9", "cp1254"),
        ("„Łódź”", "iso-8859-2", "cp1250"),
        ("Łódź, Šumava", "iso-8859-2", "iso8859-2"),
        ("“ราคา” 500", "tis-620", "cp874"),
        ("“ราคา” 500", "windows-874", "cp874"),
        ("זהו מסמך", "iso-8859-8-i", "iso8859-8"),
        ("500 € – “now”", "iso-8859-1", "cp1252"),
    ],
)
def test_a_declared_character_set_is_the_one_that_windows_calls_so(parsed, text: str, charset: str, written: str):
    header = f"From: a@b.c\nSubject: S\nMIME-Version: 1.0\nContent-Type: text/plain; charset={charset}"
    document = parsed("a.eml", f"{header}\nContent-Transfer-Encoding: 8bit\n\n".encode() + text.encode(written))
    assert said(document)[-1] == ("paragraph", text)


def test_what_only_says_that_there_is_html_may_bear_a_long_address(parsed):
    html = "<p>Order 4711: two lamps.</p>" + "<p>You may send back for thirty days what you have ordered.</p>" * 12
    address = f"https://example.org/view?message={'9f1c2d3e' * 40}"
    message = mail(f"To view this message, please open it in a browser that shows HTML:\n{address}\n")
    message.add_alternative(html, subtype="html")
    assert "Order 4711" in parsed("a.eml", message.as_bytes()).pages[0].text
    message = mail("This message is best viewed in a program that shows HTML. " * 4)
    message.add_alternative(html * 2, subtype="html")
    assert "Order 4711" in parsed("a.eml", message.as_bytes()).pages[0].text


def test_html_beside_another_text_is_read_with_it(parsed):
    message = EmailMessage()
    message["Subject"], message["From"] = "News", "a@b.c"
    message.make_mixed()
    for subtype, text in (("html", "<p>The message itself.</p>"), ("plain", "A footer of the list. " * 20)):
        part = EmailMessage()
        part.set_content(text, subtype=subtype)
        message.attach(part)
    texts = [text for _, text in said(parsed("a.eml", message.as_bytes()))]
    assert texts[2] == "The message itself."
    assert texts[3].startswith("A footer of the list.")


def test_a_text_and_its_html_say_it_once_however_they_are_put(parsed):
    message = EmailMessage()
    message["Subject"], message["From"] = "News", "a@b.c"
    message.make_mixed()
    for subtype, text in (("plain", "All is *well* here."), ("html", "<p>All is <b>well</b> here.</p>")):
        part = EmailMessage()
        part.set_content(text, subtype=subtype)
        message.attach(part)
    texts = [text for _, text in said(parsed("a.eml", message.as_bytes()))]
    assert texts[2:] == ["All is *well* here."]


def test_a_name_of_an_encoding_in_parts_is_no_fault(parsed):
    source = b"Subject: S\nContent-Type: text/plain; charset*=utf-8''utf-8\n\nGr\xc3\xbc\xc3\x9fe\n"
    assert said(parsed("a.eml", source))[-1] == ("paragraph", "Grüße")


def test_a_message_that_breaks_its_reader_leaves_the_others_of_its_mailbox(parsed, monkeypatch):
    date = mail_parser._date
    monkeypatch.setattr(mail_parser, "_date", lambda text: date(text) if text else {}["nothing"])
    start = b"From ada@example.org Tue Mar  5 14:02:00 2024\n"
    broken = b"Subject: No date\n\nText.\n"
    document = parsed("Inbox", start + mail("First.").as_bytes() + b"\n" + start + broken)
    assert places(document) == [""]
    assert "message 2 (It seems to be damaged" in document.remark


def test_what_only_programs_read_is_no_attachment(parsed):
    message = mail("All that there is to tell. " * 20)
    message.add_alternative("<html amp4email><body>All that there is to tell.</body></html>", subtype="x-amp-html")
    message.add_alternative("<p>All that there is to tell.</p>", subtype="html")
    assert places(parsed("a.eml", message.as_bytes())) == [""]


def test_a_message_that_is_encrypted_leaves_the_others_of_its_mailbox(parsed):
    locked = (
        b"Subject: Secret\nFrom: a@b.c\nMIME-Version: 1.0\nContent-Type: multipart/encrypted; boundary=x\n\n--x--\n"
    )
    start = b"From ada@example.org Tue Mar  5 14:02:00 2024\n"
    document = parsed(
        "Inbox", start + mail().as_bytes() + b"\n" + start + locked + b"\n" + start + mail("Third.").as_bytes()
    )
    assert [page.number for page in document.pages] == [1, 2]
    assert "message 2 (The message is encrypted" in document.remark
    with pytest.raises(DocumentUnsupported, match="encrypted"):
        parsed("Inbox", start + locked)
    outer = mail()
    outer.add_attachment(email.message_from_bytes(locked, policy=email.policy.default))
    assert "Secret (The message is encrypted" in parsed("a.eml", outer.as_bytes()).remark


def test_what_attachments_need_is_told(parsed, monkeypatch):
    def locked(data: bytes, name: str, limits: Limits) -> ParsedDocument:
        raise DocumentEncrypted("It needs a password.")

    monkeypatch.setattr(nested, "parse", locked)
    message = mail()
    message.add_attachment(b"PK", maintype="application", subtype="zip", filename="a.zip")
    document = parsed("a.eml", message.as_bytes())
    assert (document.needs, document.remark) == (
        "password",
        "1 part could not be read in full: a.zip (It needs a password).",
    )


@pytest.mark.parametrize("end", ["?>", ">"])
def test_an_xml_declaration_before_the_html_of_a_mail_is_no_fault(parsed, end: str):
    declared = f'<?xml version="1.0" encoding="utf-8"{end}'
    message = EmailMessage()
    message["Subject"], message["From"] = "Only", "a@b.c"
    message.set_content(f"{declared}<html><body><p>Only this.</p></body></html>", subtype="html")
    assert said(parsed("a.eml", message.as_bytes()))[-1] == ("paragraph", "Only this.")


def test_attachments_are_read_by_their_own_families(parsed, tmp_path: Path):
    message = mail()
    word = write_docx(tmp_path / "x.docx", "Words in a document.").read_bytes()
    message.add_attachment(word, maintype="application", subtype="octet-stream", filename="Brief.docx")
    message.add_attachment(pdf(["Page one.", "Page two."]), maintype="application", subtype="pdf", filename="a.pdf")
    message.add_attachment("name;city\nAda;London\n", subtype="csv", filename="people.csv")
    message.add_attachment(b"\0\1\2" * 99, maintype="application", subtype="x-thing", filename="thing.bin")
    document = parsed("a.eml", message.as_bytes())
    assert [(page.number, page.place) for page in document.pages] == [
        (1, "message"),
        (2, "attachment “Brief.docx”"),
        (3, "attachment “a.pdf”, page 1"),
        (4, "attachment “a.pdf”, page 2"),
        (5, "attachment “people.csv”"),
    ]
    assert "Attachments: Brief.docx, a.pdf, people.csv, thing.bin" in document.pages[0].text
    assert document.pages[1].text == "Words in a document."
    assert document.pages[4].line_word == "row"
    assert document.pages[4].blocks[-1].line == 2
    assert document.remark == (
        "1 part could not be read in full: thing.bin (This is a file of binary data, which Ragdoll does not read yet)."
    )


def test_a_forwarded_message_is_a_page_of_its_own(parsed):
    inner = mail("The inner words.\n", subject="Inner")
    inner.add_attachment("inner notes", filename="notes.txt")
    message = mail()
    message.add_attachment(inner)
    document = parsed("a.eml", message.as_bytes())
    assert places(document) == [
        "message",
        "attachment “Inner”",
        "attachment “Inner”, attachment “notes.txt”",
    ]
    assert "The inner words." in document.pages[1].text


def test_letters_lie_one_in_another_so_deep_and_no_deeper(parsed):
    message = mail("The innermost.\n")
    for level in range(8):
        outer = mail(f"Level {level}.\n", subject=f"Level {level}")
        outer.add_attachment(message)
        message = outer
    document = parsed("a.eml", message.as_bytes(), Limits(max_depth=3))
    assert len(document.pages) == 4
    assert "It lies in too many archives or mails" in document.remark


def test_a_mailbox_is_read_message_by_message(parsed):
    messages = []
    for number in range(1, 4):
        message = mail(f"Body {number}.\nFrom here on it is quoted.\n", subject=f"Subject {number}")
        if number == 2:
            message.add_attachment("notes of two", filename="notes.txt")
        text = message.as_bytes().replace(b"\nFrom here", b"\n>From here")
        messages.append(b"From ada@example.org Tue Mar  5 14:02:00 2024\n" + text + b"\n")
    document = parsed("Inbox", b"".join(messages))
    assert document.format == "mailbox"
    assert places(document) == [
        "message 1, “Subject 1”",
        "message 2, “Subject 2”",
        "message 2, attachment “notes.txt”",
        "message 3, “Subject 3”",
    ]
    assert "\nFrom here on it is quoted." in document.pages[0].text
    assert [page.number for page in document.pages] == [1, 2, 3, 4]
    alone = parsed("alone.eml", messages[0])
    assert (alone.format, alone.title, places(alone)) == ("mail", "Subject 1", [""])


def test_old_encodings_of_headers_and_bodies(parsed):
    raw = (
        b"From: =?iso-8859-1?q?J=F6rg?= <j@example.org>\r\nTo: \xc3\x84nne <a@example.org>\r\n"
        b"Subject: =?utf-8?B?UHJp?= =?utf-8?B?dmV0?= =?koi8-r?B?8NLJ18XU?=\r\nDate: not a date\r\n"
        b"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=iso-8859-1\r\n"
        b"Content-Transfer-Encoding: 8bit\r\n\r\n\x93Gr\xfc\xdfe\x94\r\n"
    )
    document = parsed("a.eml", raw)
    assert document.title == "PrivetПривет"
    assert "From: Jörg <j@example.org>\nTo: Änne <a@example.org>\nDate: not a date" in document.pages[0].text
    assert said(document)[-1] == ("paragraph", "“Grüße”")


def test_signatures_and_pictures_within_the_text_are_passed_over(parsed):
    message = mail()
    message.add_related(b"\x89PNG\r\n\x1a\n" + bytes(50), maintype="image", subtype="png", cid="<logo>")
    message.make_mixed()
    message.add_attachment(b"x", maintype="application", subtype="pgp-signature", filename="signature.asc")
    document = parsed("a.eml", message.as_bytes())
    assert len(document.pages) == 1
    assert document.remark == ""
    assert "Attachments" not in document.pages[0].text


def test_an_encrypted_message_says_so(parsed):
    raw = b"From: a@b.c\nTo: d@e.f\nSubject: s\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nMIAG"
    with pytest.raises(DocumentUnsupported, match="The message is encrypted"):
        parsed("a.eml", raw)


def test_a_mail_is_known_without_its_ending_and_a_text_about_mail_is_none(parsed):
    sent = mail(**{"Message-ID": "<1@x>", "Received": "from a by b"}).as_bytes()
    assert parsed("1709643720.M1.host", sent).format == "mail"
    assert parsed("a.emlx", str(len(sent)).encode() + b"\n" + sent).title == "Größe der Dinge"
    assert parsed("notes.md", sent).format == "markdown"
    assert parsed("letter", "From: me\nTo: you\nDate: today\n\nNo mail.").format == "text"
    assert parsed("story", "From London he went.\nTo Paris: by boat.\nThen: on.\n").format == "text"


def test_what_apple_notes_after_a_message_is_no_part_of_it(parsed):
    sent = mail(**{"Message-ID": "<1@x>"}).as_bytes()
    notes = b'<?xml version="1.0" encoding="UTF-8"?>\n<plist version="1.0"><dict><key>flags</key></dict></plist>\n'
    document = parsed("a.emlx", f"{len(sent):<10}\n".encode() + sent + notes)
    assert said(document)[-1] == ("paragraph", "here it is.")
    for wrong in (0, len(sent) - 5, 10**9):
        assert "here it is." in parsed("a.emlx", f"{wrong}\n".encode() + sent + notes).pages[0].text


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_lines_of_earlier_mailboxes_belong_to_no_message(parsed, end: bytes):
    start = b"From ada@example.org Tue Mar  5 14:02:00 2024\n>From mary@example.org Tue Mar  5 14:01:00 2024\n"
    messages = b"".join(start + mail(f"Body {number}.\n").as_bytes() + b"\n" for number in (1, 2))
    document = parsed("Inbox", messages.replace(b"\n", end))
    assert document.format == "mailbox"
    assert [text for page in (0, 1) for _, text in said(document, page)][2::3] == ["Body 1.", "Body 2."]


def test_a_document_inside_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    seen: list[list[str]] = []
    real = families.parse

    def watched(path: Path, limits: Limits, name: str = "") -> ParsedDocument:
        seen.append(os.listdir(tmp_path))
        return real(path, limits, name)

    monkeypatch.setattr(families, "parse", watched)
    assert nested.parse(b"# Title", "a.md", Limits()).format == "markdown"
    assert len(seen) == 1
    assert os.listdir(tmp_path) == []


def test_a_bomb_inside_does_not_go_off(parsed):
    bomb = packed({"xl/workbook.xml": b"\0" * 80_000_000})
    message = mail()
    message.add_attachment(bomb, maintype="application", subtype="zip", filename="bomb.xlsx")
    document = parsed("a.eml", message.as_bytes())
    assert len(document.pages) == 1
    assert "unpacks to 76 MB" in document.remark


def test_all_real_mails_are_read():
    folder = shared_file("docs/mail-eml")
    paths = sorted(folder.rglob("*.eml"))
    assert len(paths) > 90
    formats = []
    for path in paths:
        document = families.parse(path, Limits())
        check(document)
        formats.append(document.format)
    # One writes its headers as nobody has for thirty years ("From  : John"): it is read as a text.
    assert formats.count("mail") >= len(paths) - 1
