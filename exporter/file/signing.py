"""Signs a `.pte`: who made every byte of it, in FILE.sig beside it (schemas/signed_file.fbs)."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import flatbuffers

from exporter.errors import ExportError
from exporter.file.flatbuffer_tables import Number, table, tables
from exporter.file.pte import Range, verify
from exporter.file.replacing import replacing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

RECORD = "integrity record"  # what a file has after the ranges that its record lists

_IDENTIFIER = b"THSG"
_VERSION = 1
_CHUNK = 1 << 24
_KEY_SIZE = 32  # of a file that has nothing else
_MOST_KEY = 1 << 16  # more is no key


def signature_path(path: Path) -> Path:
    """Where the signature of a file is."""
    return path.with_name(f"{path.name}.sig")


def read_private_key(path: Path) -> "Ed25519PrivateKey":
    """Reads an Ed25519 key: PEM, as `openssl genpkey -algorithm ed25519` writes it, or a file of
    its 32 bytes. No error has any of what was read.

    Raises:
        ExportError: it cannot be read, is no such key, or needs a password.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise ExportError(
            "--sign needs the package cryptography; pip install 'thimble-ml[sign]'."
        ) from None
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_KEY)
    except OSError as error:
        raise ExportError(
            f"The key {path} cannot be read ({error.strerror}); openssl genpkey -algorithm ed25519 "
            f"-out {path} writes one."
        ) from None
    if len(content) == _KEY_SIZE:
        return Ed25519PrivateKey.from_private_bytes(content)
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        raise ExportError(
            f"The key {path} needs a password; write it without one by openssl pkey -in {path} "
            "-out KEY."
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if isinstance(key, Ed25519PrivateKey):
        return key
    if b"BEGIN PUBLIC KEY" in content:
        raise ExportError(f"The key {path} is a public one; name the private key that it is of.")
    raise ExportError(
        f"The key {path} is not an Ed25519 private key; openssl genpkey -algorithm ed25519 -out "
        "KEY writes one."
    )


def sign(path: Path, key: "Ed25519PrivateKey") -> Path:
    """Writes the signature of a `.pte`, and returns its path; on failure an older one stays.

    Raises:
        ExportError: the file is not ours, or is damaged; the signature cannot be written.
    """
    ranges = verify(path, everything=True)
    target = signature_path(path)
    with replacing(target) as temporary, open(path, "rb") as file:
        end, size = sum(item.size for item in ranges), file.seek(0, 2)
        record = _write_record(file, [*ranges, Range(RECORD, end, size - end, 0, True)], size)
        temporary.write_bytes(record + key.sign(record))
    return target


def _write_record(file: BinaryIO, ranges: list[Range], size: int) -> bytes:
    builder = flatbuffers.Builder(1024)
    items = [
        table(
            builder,
            builder.CreateString(item.name),
            Number("Uint64", item.offset),
            Number("Uint64", item.size),
            builder.CreateByteVector(_sha256(file, item)),
        )
        for item in ranges
    ]
    fields = Number("Uint32", _VERSION), Number("Uint64", size), tables(builder, items)
    builder.Finish(table(builder, *fields), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _sha256(file: BinaryIO, item: Range) -> bytes:
    file.seek(item.offset)
    digest, left = hashlib.sha256(), item.size
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            raise ExportError(f"{file.name} became shorter while it was signed; sign it again.")
        digest.update(chunk)
        left -= len(chunk)
    return digest.digest()
