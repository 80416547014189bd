"""Files that must be signed: every byte is checked, and refused by its range's name."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from exporter.file.pte import Range, verify
from exporter.file.signing import RECORD, _write_record, sign
from runtime import Runner
from runtime.errors import RunnerError
from runtime.program import Program
from runtime.server.model_process import ModelOptions

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


@pytest.fixture(scope="module")
def signed(
    cpp_build: Path, stories_cpu_pte: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A signed file; its public key is beside it."""
    directory = tmp_path_factory.mktemp("signed")
    pte = Path(shutil.copy(stories_cpu_pte, directory / "model.pte"))
    sign(pte, KEY)
    (directory / "public.pem").write_bytes(PUBLIC)
    return pte


@pytest.fixture
def copied(signed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed.parent, tmp_path / "copy")) / signed.name


def refusal(pte: Path, key: str | Path | None = None) -> str:
    with pytest.raises(RunnerError) as caught:
        Runner(pte, 1, require_signature=key or pte.with_name("public.pem"))
    return str(caught.value)


def ranges_of(pte: Path) -> list[Range]:
    """Those that are signed."""
    ranges = verify(pte, everything=False)
    end, size = sum(item.size for item in ranges), pte.stat().st_size
    return [*ranges, Range(RECORD, end, size - end, 0, True)]


def flip(path: Path, place: int) -> None:
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def test_a_signed_file_runs(signed: Path) -> None:
    """With the key as PEM, as its bytes or as text, it says what it says without."""
    raw = signed.with_name("raw")
    raw.write_bytes(KEY.public_key().public_bytes_raw())
    texts = set()
    for key in (None, signed.with_name("public.pem"), raw, PUBLIC.decode(), PUBLIC.decode()[:-1]):
        with Runner(signed, 1, require_signature=key) as runner:
            texts.add("".join(runner.generate("Once", 4)))
    assert len(texts) == 1
    ModelOptions(signed, 1, require_signature=str(raw)).load().close()


def test_every_range_is_checked(copied: Path) -> None:
    """The first and the last byte of each, although checksums would say less of weights."""
    ranges = ranges_of(copied)
    assert {"program", "weights", "thimble.tokenizer", RECORD} <= {item.name for item in ranges}
    for item in ranges:
        last = item.offset + item.size - 1
        for place in {item.offset, last}:
            flip(copied, place)
            assert refusal(copied) == (
                f"{copied} is not the file that was signed: its bytes {item.offset} to {last}, "
                f"{item.name}, were changed: get it again"
            )
            flip(copied, place)
    Runner(copied, 1, require_signature=copied.with_name("public.pem")).close()


def test_other_sizes(copied: Path) -> None:
    size = copied.stat().st_size
    for other in (size + 1, size - 1, 1):
        os.truncate(copied, other)
        assert f"was signed: it has {other} bytes, not {size}" in refusal(copied)


def test_a_changed_signature(copied: Path) -> None:
    """No byte of it can be another, and none can be missing."""
    signature = copied.with_name(f"{copied.name}.sig")
    content = signature.read_bytes()
    for place in {*range(0, len(content), 7), *range(len(content) - 64, len(content))}:
        signature.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert refusal(copied).startswith(f"{signature} is not a signature")
    for size in (len(content) - 1, 64, 63, 1):
        signature.write_bytes(content[:size])
        assert refusal(copied).startswith(f"{signature} is not a signature")
    for missing in (lambda: signature.write_bytes(b""), signature.unlink, signature.mkdir):
        missing()
        assert refusal(copied).startswith(f"{copied} has no signature, because {signature} cannot")


def _records() -> dict[str, Callable[[list[Range]], list[Range]]]:
    return {
        "none": lambda _: [],
        "a gap": lambda ranges: [ranges[0], *ranges[2:]],
        "the end is missing": lambda ranges: ranges[:-1],
        "twice": lambda ranges: [*ranges, ranges[-1]],
        "empty": lambda ranges: [replace(ranges[0], size=0), *ranges],
    }


@pytest.mark.parametrize("kind", _records())
def test_a_record_that_leaves_bytes_out(copied: Path, kind: str) -> None:
    """Even one that is signed does not say less than every byte."""
    content = copied.read_bytes()
    record = _write_record(BytesIO(content), _records()[kind](ranges_of(copied)), len(content))
    copied.with_name(f"{copied.name}.sig").write_bytes(record + KEY.sign(record))
    assert "model.pte.sig is not a signature, or is damaged" in refusal(copied)


def test_keys_that_are_not_those(signed: Path, tmp_path: Path) -> None:
    public = tmp_path / "key"
    private = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for content, said in (
        (OTHER.public_key().public_bytes_raw(), f"is not a signature of the public key {public}: "),
        (private, f"the public key {public} is a private key, which only its owner should have"),
        (b"", f"the public key {public} cannot be read (it is not a file, or is empty)"),
        (PUBLIC[:-30], f"the public key {public} is not an Ed25519 key"),
        (bytes(33), f"the public key {public} is not an Ed25519 key"),
    ):
        public.write_bytes(content)
        assert said in refusal(signed, public)
    told = refusal(signed, private.decode())
    assert told.startswith("the public key is a private key") and private.split()[3] not in (
        told.encode()
    )
    with pytest.raises(RunnerError, match="public_key is empty"):
        Runner(signed, 1, require_signature="")


def test_drafts_and_programs_need_a_signature_too(signed: Path, copied: Path) -> None:
    public = signed.with_name("public.pem")
    flip(copied, ranges_of(copied)[0].offset)
    with pytest.raises(RunnerError, match="copy/model.pte is not the file that was signed"):
        Runner(signed, 1, draft=copied, require_signature=public)
    with pytest.raises(RunnerError, match="copy/model.pte is not the file that was signed"):
        Program(copied, 1, require_signature=public)


def test_the_runner_requires_a_signature(cpp_build: Path, signed: Path, copied: Path) -> None:
    """Also where it only verifies, and for every kind of file."""
    flip(copied, copied.stat().st_size // 2)
    works = (["-p", "Once", "-n", "2"], ["--verify"], ["--embed", "-p", "a"], ["--audio", "a.wav"])
    for work in (*works, ["--input", "a.npy", "--output", "b.npy"]):
        command = [cpp_build / "runner", copied, *work, "--require-signature"]
        ended = subprocess.run([*command, signed.with_name("public.pem")], capture_output=True)
        assert ended.returncode == 2
        if b"a.wav" not in ended.stderr and b"a.npy" not in ended.stderr:  # read before the model
            assert b"is not the file that was signed" in ended.stderr
    command = [cpp_build / "runner", signed, *works[0], "--require-signature"]
    subprocess.run([*command, signed.with_name("public.pem")], check=True, capture_output=True)


@pytest.mark.check
def test_a_build_without_the_library_says_so(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "runtime" / "cpp"
    (tmp_path / "main.cpp").write_text(
        '#include <cstdio>\n#include "trust/signature_file.h"\nint main() { std::puts('
        'thimble::check_signature("m.pte", nullptr, 0, "k").message().c_str()); }\n'
    )
    parts = [*source.glob("trust/*.cpp"), source / "platform/posix/mapped_file.cpp"]
    parts = [part for part in parts if part.name != "digests_openssl.cpp"]
    program = tmp_path / "program"
    command = ["c++", "-std=c++17", "-I", source, tmp_path / "main.cpp", *parts]
    subprocess.run([*command, source / "platform/posix/pages.cpp", "-o", program], check=True)
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert said.startswith("this build cannot check signatures, because it has no OpenSSL: ")
