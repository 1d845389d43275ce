"""AES-encrypted members of ZIP archives (WinZip's AE-1 and AE-2, which 7-Zip writes too), which zipfile does not know.

The scheme: <https://www.winzip.com/en/support/aes-encryption/>. What comes out is authenticated before it is unpacked.
"""

from __future__ import annotations

import bz2
import hashlib
import hmac
import struct
import zipfile
import zlib
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from engine.errors import DocumentUnreadable, DocumentUnsupported
from engine.library.parsers.limits import Limits, needs_password

METHOD = 99
_EXTRA_FIELD = 0x9901
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_KEY_BYTES = {1: 16, 2: 24, 3: 32}
_ROUNDS = 1000
_CHECK_BYTES = 2
_SEAL_BYTES = 10
_BLOCK_BYTES = 16
# How much to decrypt at once.
_STRETCH_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class _Scheme:
    key_bytes: int
    compression: int


def read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limits: Limits) -> bytes:
    """Returns the member, decrypted with one of the passwords, unpacked to at most its declared size.

    Raises:
        DocumentEncrypted: None of the passwords is correct.
        DocumentUnsupported: Its encryption or compression is unknown.
        DocumentUnreadable: It is damaged.
    """
    scheme, data = _scheme(entry), _stored(archive, entry)
    salt_bytes = scheme.key_bytes // 2
    if len(data) < salt_bytes + _CHECK_BYTES + _SEAL_BYTES:
        raise DocumentUnreadable("It is damaged in the archive.")
    salt, check = data[:salt_bytes], data[salt_bytes : salt_bytes + _CHECK_BYTES]
    text, seal = data[salt_bytes + _CHECK_BYTES : -_SEAL_BYTES], data[-_SEAL_BYTES:]
    for password in limits.passwords:
        keys = hashlib.pbkdf2_hmac("sha1", password.encode(), salt, _ROUNDS, 2 * scheme.key_bytes + _CHECK_BYTES)
        if keys[-_CHECK_BYTES:] != check:
            continue
        seal_key = keys[scheme.key_bytes : 2 * scheme.key_bytes]
        if hmac.compare_digest(hmac.digest(seal_key, text, "sha1")[:_SEAL_BYTES], seal):
            return _unpacked(_decrypted(text, keys[: scheme.key_bytes]), scheme.compression, entry.file_size)
    raise needs_password("A file in the archive", limits)


def _scheme(entry: zipfile.ZipInfo) -> _Scheme:
    extra = entry.extra
    while len(extra) >= 4:
        field, size = struct.unpack_from("<HH", extra)
        if field == _EXTRA_FIELD and size >= 7 and len(extra) >= 11:
            strength, compression = struct.unpack_from("<BH", extra, 8)
            if strength in _KEY_BYTES:
                return _Scheme(_KEY_BYTES[strength], compression)
        extra = extra[4 + size :]
    raise DocumentUnsupported("It is encrypted in a way that cannot be opened here.")


def _stored(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Returns the member's bytes as they are in the archive."""
    stream = archive.fp
    if stream is None:
        raise DocumentUnreadable("The archive is closed.")
    stream.seek(entry.header_offset)
    header = stream.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\x03\x04"):
        raise DocumentUnreadable("It is damaged in the archive.")
    _, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
    stream.seek(name_bytes + extra_bytes, 1)
    return stream.read(entry.compress_size)


def _decrypted(text: bytes, key: bytes) -> bytes:
    """Decrypts AES in counter mode with a little-endian counter, which libraries do not offer."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    out = bytearray()
    for start in range(0, len(text), _STRETCH_BYTES):
        stretch = text[start : start + _STRETCH_BYTES]
        first = start // _BLOCK_BYTES + 1
        num_blocks = -(-len(stretch) // _BLOCK_BYTES)
        counters = b"".join(number.to_bytes(_BLOCK_BYTES, "little") for number in range(first, first + num_blocks))
        stream = encryptor.update(counters)[: len(stretch)]
        mixed = int.from_bytes(stretch, "big") ^ int.from_bytes(stream, "big")
        out += mixed.to_bytes(len(stretch), "big")
    return bytes(out)


def _unpacked(data: bytes, compression: int, num_bytes: int) -> bytes:
    if compression == zipfile.ZIP_STORED:
        return data
    if compression == zipfile.ZIP_DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, max(1, num_bytes))
    if compression == zipfile.ZIP_BZIP2:
        return bz2.BZ2Decompressor().decompress(data, max(1, num_bytes))
    raise DocumentUnsupported("It is packed in a way that cannot be opened here.")
