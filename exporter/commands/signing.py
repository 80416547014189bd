"""`python -m exporter --sign`: the key is checked before the work, the file is signed after it."""

import sys
from pathlib import Path

import click

from exporter.commands.working import checking
from exporter.errors import ExportError
from exporter.file.replacing import check_outputs
from exporter.file.signing import read_private_key, sign, signature_path


def check_signing(out: Path, key: Path) -> None:
    """Exits with 2 if the key cannot sign, or the signature cannot be written."""
    with checking():
        read_private_key(key)
        check_outputs(signature_path(out), None, [key])


def run_sign(path: Path, key: Path) -> None:
    """Signs a file that exists, and says where the signature is.

    Exits with 2 if it cannot be signed; then an older signature stays.
    """
    check_signing(path, key)
    try:
        signature = sign(path, read_private_key(key))
    except ExportError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    click.echo(f"wrote {signature}: who has its public key can require this signature of {path}")
