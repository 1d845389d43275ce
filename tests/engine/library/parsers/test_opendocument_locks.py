"""Tests for engine.library.parsers.opendocument_locks: files locked as OpenDocument's specification says."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from engine.errors import DocumentEncrypted, DocumentUnsupported
from engine.library.parsers.limits import Limits
from tests.helpers.packages import packed

MIMETYPE = "application/vnd.oasis.opendocument.text"
SALT = bytes(range(16))
CONTENT = (
    '<o:document-content xmlns:o="o" xmlns:t="t"><o:body><o:text><t:p>The secret words.</t:p></o:text></o:body>'
    "</o:document-content>"
)
RIGHT = Limits(passwords=("wrong", "pässword"))


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def entry(name: str, algorithm: str, vector: bytes, derivation: str, start: str = "", checksum: str = "") -> str:
    generation = f'<m:start-key-generation m:start-key-generation-name="{start}"/>' if start else ""
    return (
        f'<m:manifest xmlns:m="m" xmlns:l="l"><m:file-entry m:full-path="{name}"><m:encryption-data {checksum}>'
        f'<m:algorithm m:algorithm-name="{algorithm}" m:initialisation-vector="{text(vector)}"/>'
        f'<m:key-derivation m:salt="{text(SALT)}" {derivation}/>{generation}'
        "</m:encryption-data></m:file-entry></m:manifest>"
    )


def deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


def encrypted(cipher: Cipher, data: bytes) -> bytes:
    encryptor = cipher.encryptor()
    return encryptor.update(data) + encryptor.finalize()


def locked(manifest: str, name: str, data: bytes) -> bytes:
    return packed({"META-INF/manifest.xml": manifest, name: data}, MIMETYPE)


def sha256_1k(packed: bytes) -> str:
    name = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0#sha256-1k"
    return f'm:checksum-type="{name}" m:checksum="{text(hashlib.sha256(packed[:1024]).digest())}"'


def sha1_1k(packed: bytes) -> str:
    return f'm:checksum-type="SHA1/1K" m:checksum="{text(hashlib.sha1(packed[:1024]).digest())}"'


def without(packed: bytes) -> str:
    return ""


def in_aes(
    password: str, content: str = CONTENT, rounds: int = 1000, checksum: Callable[[bytes], str] = sha256_1k
) -> bytes:
    """As OpenDocument 1.2 has it."""
    vector = bytes(16)
    key = hashlib.pbkdf2_hmac("sha1", hashlib.sha256(password.encode()).digest(), SALT, rounds, 32)
    data = deflated(content.encode())
    checked = checksum(data)
    num_filling = 16 - len(data) % 16
    data += bytes(num_filling - 1) + bytes([num_filling])
    manifest = entry(
        "content.xml",
        "http://www.w3.org/2001/04/xmlenc#aes256-cbc",
        vector,
        f'm:key-derivation-name="PBKDF2" m:key-size="32" m:iteration-count="{rounds}"',
        "http://www.w3.org/2000/09/xmldsig#sha256",
        checked,
    )
    return locked(manifest, "content.xml", encrypted(Cipher(AES(key), CBC(vector)), data))


def in_blowfish(password: str, content: str = CONTENT, checksum: Callable[[bytes], str] = sha1_1k) -> bytes:
    """As OpenOffice.org wrote it."""
    vector, packed = bytes(8), deflated(content.encode())
    key = hashlib.pbkdf2_hmac("sha1", hashlib.sha1(password.encode()).digest(), SALT, 1024, 16)
    derivation = 'm:key-derivation-name="PBKDF2" m:iteration-count="1024"'
    manifest = entry("content.xml", "Blowfish CFB", vector, derivation, checksum=checksum(packed))
    data = encrypted(Cipher(Blowfish(key), CFB(vector)), packed)
    return locked(manifest, "content.xml", data)


def as_a_whole(password: str) -> bytes:
    """As LibreOffice writes it since 24.8."""
    vector = bytes(12)
    secret = hashlib.sha256(password.encode()).digest()
    key = Argon2id(salt=SALT, length=32, iterations=2, lanes=2, memory_cost=64).derive(secret)
    inner = packed({"content.xml": CONTENT}, MIMETYPE)
    manifest = entry(
        "encrypted-package",
        "http://www.w3.org/2009/xmlenc11#aes256-gcm",
        vector,
        'm:key-derivation-name="urn:x:argon2id" m:key-size="32" l:argon2-iterations="2" l:argon2-memory="64"'
        ' l:argon2-lanes="2"',
        "http://www.w3.org/2001/04/xmlenc#sha256",
    )
    return locked(manifest, "encrypted-package", vector + AESGCM(key).encrypt(vector, inner, None))


@pytest.mark.parametrize("lock", [in_aes, in_blowfish, as_a_whole])
def test_a_password_opens_what_it_protects(parsed, lock):
    document = parsed("a.odt", lock("pässword"), RIGHT)
    assert (document.format, document.pages[0].text) == ("odt", "The secret words.")


@pytest.mark.parametrize("lock", [in_aes, in_blowfish, as_a_whole])
def test_without_its_password_a_document_asks_for_it(parsed, lock):
    with pytest.raises(DocumentEncrypted, match="The document needs a password"):
        parsed("a.odt", lock("pässword"))
    with pytest.raises(DocumentEncrypted, match="The password does not open it"):
        parsed("a.odt", lock("another"), RIGHT)


@pytest.mark.parametrize("lock", [in_aes, in_blowfish])
def test_a_key_is_right_if_the_part_has_its_checksum(parsed, lock):
    words = " ".join(str(number**5) for number in range(1000))
    document = parsed("a.odt", lock("pässword", CONTENT.replace("The secret", words)), RIGHT)
    assert document.pages[0].text == f"{words} words."
    assert parsed("a.odt", lock("pässword", checksum=without), RIGHT).pages[0].text == "The secret words."
    # So it is with a wrong key, if what that gives happens to inflate.
    with pytest.raises(DocumentEncrypted, match="The password does not open it"):
        parsed("a.odt", lock("pässword", checksum=lambda packed: sha1_1k(b"other")), RIGHT)


def test_what_asks_for_too_much_work_or_an_unknown_cipher_is_refused(parsed):
    with pytest.raises(DocumentUnsupported, match="protected in a way"):
        parsed("a.odt", locked(entry("content.xml", "ROT13", b"", ""), "content.xml", b"x"), RIGHT)
    greedy = 'm:key-derivation-name="PBKDF2" m:iteration-count="99999999999"'
    with pytest.raises(DocumentUnsupported, match="protected in a way"):
        parsed("a.odt", locked(entry("content.xml", "aes256-cbc", bytes(16), greedy), "content.xml", b"x"), RIGHT)
