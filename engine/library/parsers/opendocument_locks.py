"""OpenDocument files with a password: their parts, or the whole package in them, opened with one that is known.

OpenDocument 1.2, part 3, 3.4; for whole packages the proposal for 1.5 (OFFICE-4153), as LibreOffice 24.8 writes them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from lxml import etree

from engine.errors import DocumentUnsupported
from engine.library.parsers.archive import Package
from engine.library.parsers.elements import attribute, child, descendants
from engine.library.parsers.limits import Limits, check_unpacked, needs_password

_WHOLE_PACKAGE = "encrypted-package"
_CONTENT = "content.xml"
# More than any office program uses, and less than a parser may use.
_MAX_ITERATIONS = 10_000_000
_MAX_ARGON2_KIB = 2**20
# The manifest's checksums "SHA1/1K" and "…#sha256-1k" are of so many bytes of a decrypted part, which is still packed.
_CHECKED_BYTES = 1024
_XML = b"<?xml"


def is_locked(package: Package) -> bool:
    return next(descendants(package.xml("META-INF/manifest.xml"), "encryption-data"), None) is not None


def unlocked(package: Package, limits: Limits) -> Package | bytes:
    """Returns the package with its parts decrypted, or the bytes of an encrypted package in it.

    Raises:
        DocumentEncrypted: None of the passwords opens it.
        DocumentUnsupported: It is protected in an unknown way.
    """
    locks = _locks(package)
    name = _WHOLE_PACKAGE if _WHOLE_PACKAGE in locks else _CONTENT
    data = package.data(name)
    if data is None or name not in locks:
        raise _unknown()
    for password in limits.passwords:
        opened = locks[name].opened(data, password, limits)
        if opened is not None:
            return opened if name == _WHOLE_PACKAGE else _Unlocked(package, locks, password, limits)
    raise needs_password("The document", limits)


class _Unlocked(Package):
    """A package whose encrypted parts are decrypted when they are read."""

    def __init__(self, package: Package, locks: dict[str, _Lock], password: str, limits: Limits) -> None:
        self._locks: dict[str, _Lock] = {}
        super().__init__(package.archive)
        self._locks, self._password, self._limits = locks, password, limits

    def data(self, name: str) -> bytes | None:
        data = super().data(name)
        lock = self._locks.get(name)
        return data if data is None or lock is None else lock.opened(data, self._password, self._limits)


@dataclass(frozen=True, slots=True)
class _Lock:
    """How one part is encrypted, according to the manifest."""

    algorithm: str
    vector: bytes
    derivation: etree._Element
    start: str
    checksum: bytes
    checksum_type: str

    def opened(self, data: bytes, password: str, limits: Limits) -> bytes | None:
        """Returns the part, None if that is not its password."""
        key = self._key(password)
        try:
            packed = self._decrypted(data, key)
            part, num_bytes = _inflated(packed, limits)
            # Some programs compute a checksum of their own; what is XML was decrypted.
            return part if part.startswith(_XML) or self._is_right(packed[:num_bytes]) else None
        except (InvalidTag, zlib.error):
            return None

    def _is_right(self, packed: bytes) -> bool:
        """Returns whether a decrypted part has its checksum: about one wrong key in 200 gives a part that inflates."""
        if not self.checksum or "1k" not in self.checksum_type:
            return True
        digest = hashlib.sha256 if "sha256" in self.checksum_type else hashlib.sha1
        return digest(packed[:_CHECKED_BYTES]).digest() == self.checksum

    def _key(self, password: str) -> bytes:
        digest = hashlib.sha256 if "sha256" in self.start else hashlib.sha1
        secret = digest(password.encode()).digest()
        salt, length = _bytes(self.derivation, "salt"), _number(self.derivation, "key-size", 16)
        if "argon2id" in attribute(self.derivation, "key-derivation-name"):
            memory = _number(self.derivation, "argon2-memory")
            if memory > _MAX_ARGON2_KIB:
                raise _unknown()
            rounds, lanes = _number(self.derivation, "argon2-iterations"), _number(self.derivation, "argon2-lanes")
            kdf = Argon2id(salt=salt, length=length, iterations=rounds, lanes=lanes, memory_cost=memory)
            return bytes(kdf.derive(secret))
        rounds = _number(self.derivation, "iteration-count", 1024)
        if not 0 < rounds <= _MAX_ITERATIONS:
            raise _unknown()
        return hashlib.pbkdf2_hmac("sha1", secret, salt, rounds, length)

    def _decrypted(self, data: bytes, key: bytes) -> bytes:
        name = self.algorithm.lower()
        if "gcm" in name:
            return AESGCM(key).decrypt(self.vector, data.removeprefix(self.vector), None)
        cipher: Cipher[Any]
        if "aes" in name:
            cipher = Cipher(AES(key), CBC(self.vector))
            data = data[: len(data) // 16 * 16]
        elif "blowfish" in name:
            cipher = Cipher(Blowfish(key), CFB(self.vector))
        else:
            raise _unknown()
        decryptor = cipher.decryptor()
        return decryptor.update(data) + decryptor.finalize()


def _locks(package: Package) -> dict[str, _Lock]:
    locks: dict[str, _Lock] = {}
    for entry in descendants(package.xml("META-INF/manifest.xml"), "file-entry"):
        data = child(entry, "encryption-data")
        algorithm, derivation = child(data, "algorithm"), child(data, "key-derivation")
        if data is not None and algorithm is not None and derivation is not None:
            checksum, checksum_type = _bytes(data, "checksum"), attribute(data, "checksum-type").lower()
            start = attribute(child(data, "start-key-generation"), "start-key-generation-name").lower()
            name, vector = attribute(algorithm, "algorithm-name"), _bytes(algorithm, "initialisation-vector")
            locks[attribute(entry, "full-path")] = _Lock(name, vector, derivation, start, checksum, checksum_type)
    return locks


def _inflated(data: bytes, limits: Limits) -> tuple[bytes, int]:
    """Unpacks a decrypted part, which was packed first, and returns also how long it was.

    Bytes after its end are padding of the last block.
    """
    if data.startswith(b"PK\x03\x04"):
        return data, len(data)
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    said = inflater.decompress(data, limits.max_unpacked_bytes + 1)
    check_unpacked(len(data), len(said), limits)
    if not inflater.eof:
        raise zlib.error("cut short")
    return said, len(data) - len(inflater.unused_data)


def _bytes(element: etree._Element, name: str) -> bytes:
    try:
        return base64.b64decode(attribute(element, name), validate=True)
    except binascii.Error as error:
        raise _unknown() from error


def _number(element: etree._Element, name: str, otherwise: int = 0) -> int:
    text = attribute(element, name)
    return int(text) if text.isdigit() else otherwise


def _unknown() -> DocumentUnsupported:
    return DocumentUnsupported("The document is protected in a way that cannot be opened here.")
