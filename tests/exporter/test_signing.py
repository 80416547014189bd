"""Signatures of files: what is signed, with which keys, and what a failure leaves."""

import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from exporter.commands.cli import main
from exporter.errors import ExportError
from exporter.file.signing import read_private_key, sign

PLAIN = serialization.NoEncryption()
PKCS8 = serialization.PrivateFormat.PKCS8
PEM = serialization.Encoding.PEM
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def run(*arguments: str | Path) -> str:
    """What the command says; one that fails exits with 2."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == (2 if result.stderr else 0), result.output
    return result.stderr or result.stdout


@pytest.fixture
def pte(stories_cpu_pte: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(stories_cpu_pte, tmp_path / "model.pte"))


def test_the_record_is_signed(pte: Path, tmp_path: Path) -> None:
    """With a key in PEM or as it is, and the file itself stays."""
    before = pte.read_bytes()
    (tmp_path / "raw").write_bytes(KEY.private_bytes_raw())
    (tmp_path / "key.pem").write_bytes(KEY.private_bytes(PEM, PKCS8, PLAIN))
    signatures = []
    for key in ("raw", "key.pem"):
        told = run("--sign-file", pte, "--sign", tmp_path / key)
        assert told.startswith(f"wrote {pte}.sig: ")
        signatures.append(pte.with_name("model.pte.sig").read_bytes())
    assert signatures[0] == signatures[1]
    KEY.public_key().verify(signatures[0][-64:], signatures[0][:-64])  # or it raises
    assert pte.read_bytes() == before


def test_keys_that_cannot_sign(pte: Path, tmp_path: Path) -> None:
    locked = serialization.BestAvailableEncryption(b"secret")
    curve = ec.generate_private_key(ec.SECP256R1())
    public = KEY.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for content, said in (
        (KEY.private_bytes(PEM, PKCS8, locked), " needs a password; write it without one by "),
        (curve.private_bytes(PEM, PKCS8, PLAIN), " is not an Ed25519 private key; openssl "),
        (public, " is a public one; name the private key that it is of.\n"),
        (b"", " is not an Ed25519 private key; "),
        (bytes(31), " is not an Ed25519 private key; "),
    ):
        (tmp_path / "key").write_bytes(content)
        told = run("--sign-file", pte, "--sign", tmp_path / "key")
        assert told.startswith(f"Error: The key {tmp_path / 'key'}{said}") and told.count("\n") == 1
        assert not pte.with_name("model.pte.sig").exists()


def test_a_failure_keeps_the_old_signature(
    pte: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = sign(pte, KEY)
    old = signature.read_bytes()
    damaged = bytearray(pte.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    pte.write_bytes(damaged)
    with pytest.raises(ExportError, match="is damaged in its weights"):
        sign(pte, KEY)
    damaged[len(damaged) // 2] ^= 1
    pte.write_bytes(damaged)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(ExportError, match="cannot store more"):
        patch.setattr(os, "replace", fail)
        sign(pte, KEY)
    assert signature.read_bytes() == old
    assert {path.name for path in tmp_path.iterdir()} == {"model.pte", "model.pte.sig"}


def test_a_key_is_not_overwritten(pte: Path, tmp_path: Path) -> None:
    key = tmp_path / "model.pte.sig"
    key.write_bytes(KEY.private_bytes_raw())
    assert "is an input of this export" in run("--sign-file", pte, "--sign", key)
    assert read_private_key(key).private_bytes_raw() == KEY.private_bytes_raw()


def test_before_an_export() -> None:
    for arguments, said in (
        (["--sign-file", "x.pte"], "--sign-file signs with a private key; add --sign KEY.\n"),
        (
            ["llama3", "--sign-file", "x.pte", "--sign", "k.pem", "--quant", "rtn4"],
            "--sign-file exports nothing; leave out MODEL and --quant.\n",
        ),
        (["llama3", "--sign", "k.pem"], "--sign signs what is exported; add --out model.pte.\n"),
        (["llama3", "--out", "x.pte", "--sign", "k.pem"], "The key k.pem cannot be read (No such "),
    ):
        assert run(*arguments).startswith(f"Error: {said}")
