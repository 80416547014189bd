"""Exports of models by name, kept in the user's cache."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

import click

from exporter.catalogue.names import preset_name
from exporter.errors import ExportError
from quant.cache.place import default_directory
from runtime.build import CHECKOUT
from runtime.commands.results import fail
from runtime.distribution import version
from runtime.errors import RunnerError, shown

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def models_directory() -> Path:
    """Returns where the files are."""
    return default_directory() / "models"


def exported(model: str, quant: str, chat_template: Path | None, quiet: bool) -> Path:
    """Returns the `.pte` of a model; exports it first, in a process of its own, if it has not been,
    or its file is damaged.

    Ends this process with the export's code if that fails.

    Args:
        model: a preset, a directory, a GGUF file or a hub id.
        quiet: whether an export that succeeds prints nothing.
    """
    out = models_directory() / _file_name(model, quant, chat_template)
    if out.exists():
        damage = _damage(out)
        if damage is None:
            return out
        click.echo(f"{damage}: exporting {model} again", err=True)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        place = f"cannot make {shown(str(out.parent))} for the export: {error.strerror}"
        fail(RunnerError(f"{place}. Name another directory with THIMBLE_CACHE"), 2)
    if not quiet:
        click.echo(f"Exporting {model} with {quant}, once, to {out}", err=True)
    command = [sys.executable, "-P", "-m", "exporter", model, "--quant", quant, "--out", str(out)]
    if chat_template is not None:
        command += ["--chat-template", str(chat_template)]
    with tempfile.TemporaryFile() as said:
        code = _run(command, said if quiet else sys.stderr)
        if code != 0:
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))
            sys.exit(code)
    _keep_as_checked(out)
    return out


def _damage(file: Path) -> str | None:
    """What is wrong with a file; None if nothing, or if it is the one that was last checked: to
    read one of 4.5 GB takes more than a second."""
    try:
        if _checked(file).read_bytes() == _stamp(file):
            return None
    except OSError:
        pass
    from exporter.file.pte import verify  # here: it imports NumPy

    try:
        verify(file, everything=True)
    except ExportError as error:
        return str(error).partition(";")[0]
    _keep_as_checked(file)
    return None


def _keep_as_checked(file: Path) -> None:
    with suppress(OSError):  # then it is checked again
        _checked(file).write_bytes(_stamp(file))


def _checked(file: Path) -> Path:
    return file.with_suffix(".checked")


def _stamp(file: Path) -> bytes:
    """What a change of the file changes too."""
    fact = file.stat()
    return f"{fact.st_size} {fact.st_mtime_ns} {fact.st_ino}".encode()


def _run(command: list[str], output: IO[bytes] | IO[str]) -> int:
    """Runs a command, which ends itself on Ctrl-C; other signals are passed on to it. With -P it
    imports nothing from the directory in which it is called, which may be anybody's; of a checkout
    that is not installed it must know where that lies."""
    paths = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    if (CHECKOUT / "pyproject.toml").is_file():
        paths.append(str(CHECKOUT))
    environment = os.environ | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})
    with _signals_for_the_child() as children:
        child = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        children.append(child)
        return child.wait()


@contextmanager
def _signals_for_the_child() -> "Iterator[list[subprocess.Popen[bytes]]]":
    children: list[subprocess.Popen[bytes]] = []

    def come(number: int, frame: FrameType | None) -> None:
        for child in children:
            if number != signal.SIGINT:  # which a terminal sends to both
                child.send_signal(number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, come)
    try:
        yield children
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _file_name(model: str, quant: str, chat_template: Path | None) -> str:
    """Names a file by all that it is made of: another version of any is another file."""
    parts = [version(), quant, *_identity(model)]
    if chat_template is not None:
        parts.append(hashlib.sha256(chat_template.read_bytes()).hexdigest())
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(model).name).strip("-.") or "model"
    return f"{name[:80]}-{quant}-{digest}.pte"


def _identity(model: str) -> list[object]:
    """Of a path, its files' names, sizes and times; of a preset or a hub id, its name."""
    path = Path(os.path.expanduser(model))
    if preset_name(model) is not None or not os.path.exists(path):
        return [preset_name(model) or model]
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    facts = [(file, file.stat()) for file in files if file.is_file()]
    times: list[object] = [[str(file), fact.st_size, fact.st_mtime_ns] for file, fact in facts]
    return [str(path.resolve()), *times]
